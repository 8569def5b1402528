"""What a detector or a Pipeline reads: features, logits or layers; their width, names, origin."""

from __future__ import annotations

from typica.detectors._pipelines import Estimator, final_detector, is_pipeline, pipeline_steps
from typica.errors import InputError, border
from typica.head import Head
from typica.origin import Origin


@border
def reads_logits(estimator: Estimator) -> bool:
    """Tell whether a detector or a Pipeline takes logits: a method of logits without a head.

    A Pipeline reads features, whatever it ends in.
    """
    detector = final_detector(estimator)
    return detector is estimator and detector._reads_logits()


@border
def reads_layers(estimator: Estimator) -> list[str] | None:
    """Return the layers whose features, side by side, a detector or a Pipeline takes, by name.

    None for features of one layer, or logits.
    """
    detector = final_detector(estimator)
    if detector is not estimator or detector.tags.reads != "layers":
        return None
    return list(getattr(detector, "layers_", []))


def input_width(estimator: Estimator) -> int | None:
    """Return how many features a row of a fitted detector or Pipeline has, where it knows."""
    first = pipeline_steps(estimator)[0]
    own: int | None = getattr(first, "n_features", None)
    return getattr(first, "n_features_in_", None) if own is None else own


@border
def known_width(estimator: Estimator) -> int:
    """Return how many features a row of a detector or Pipeline has; refuse if it does not know."""
    width = input_width(estimator)
    if width is None:
        raise InputError("how many features a row has is not known yet; fit it first.")
    return int(width)


def column_names(estimator: Estimator) -> list[str] | None:
    """Return the names of the columns that a detector or a Pipeline was fitted on, if they had any.

    Those of a data frame, or of a file that has a header.
    """
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def feature_names(estimator: Estimator) -> list[str] | None:
    """Return what the steps of a Pipeline call the detector's features; None if unknown.

    They are known if the first step was fitted on a data frame and each passes names on.
    """
    if not is_pipeline(estimator) or len(estimator.steps) == 1:
        return None
    before = estimator[:-1]
    if is_pipeline(estimator.steps[-1][1]) or not hasattr(before, "feature_names_in_"):
        return None
    try:
        return [str(name) for name in before.get_feature_names_out()]
    except AttributeError:  # a step that names nothing
        return None


def input_head(estimator: Estimator) -> Head | None:
    """Return the head that makes logits of a detector's or Pipeline's rows, where there is one."""
    width = input_width(estimator)
    for step in pipeline_steps(estimator):
        head: Head | None = getattr(step, "head", None)
        if head is not None and head.n_features == width:
            return head
    return None


@border
def origin_of(estimator: Estimator) -> Origin | None:
    """Return the network whose features a detector or a Pipeline was fitted on, where it knows."""
    return getattr(final_detector(estimator), "origin_", None)
