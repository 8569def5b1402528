"""A scikit-learn Pipeline that ends in a detector is taken wherever a detector is."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeGuard, TypeVar

from sklearn import exceptions
from sklearn.utils.validation import check_is_fitted

from typica import store
from typica.detectors._banks import KnownRows, bank_labels, is_bank
from typica.detectors.base import Detector
from typica.errors import InputError, border
from typica.estimator import NotFittedError
from typica.head import Head
from typica.kinds import wrong_kind
from typica.origin import Origin


class Pipeline(Protocol):
    """What is used of a scikit-learn Pipeline; that library has no types of its own."""

    steps: list[tuple[str, Any]]

    def __getitem__(self, part: slice) -> Any: ...
    def fit(self, X: Any, y: Any = None) -> Any: ...
    def score_samples(self, X: Any) -> Any: ...


Estimator: TypeAlias = "Detector | Pipeline"  # a detector, or a Pipeline that ends in one
E = TypeVar("E", bound=Estimator)
_HOLDERS = ("best_estimator_", "detector_")  # where a search or a classifier keeps its detector


def is_pipeline(value: object) -> TypeGuard[Pipeline]:
    """Tell whether a value is a scikit-learn Pipeline, without loading Pipelines to find out.

    >>> from sklearn.pipeline import make_pipeline
    >>> is_pipeline(make_pipeline("passthrough")), is_pipeline(Detector())
    (True, False)
    """
    loaded = sys.modules.get("sklearn.pipeline")
    return loaded is not None and isinstance(value, loaded.Pipeline)


@border
def final_detector(estimator: Estimator) -> Detector:
    """Return the detector itself, or the one that a Pipeline ends in."""
    detector = last_step(estimator)
    if not isinstance(detector, Detector):
        holder = next((name for name in _HOLDERS if hasattr(detector, name)), None)
        held = "" if holder is None else f"its {holder}, "
        raise InputError(
            f"{type(detector).__name__} is not a detector; "
            f"pass {held}a detector or a scikit-learn Pipeline that ends in one."
        )
    return detector


def last_step(estimator: Any) -> Any:
    """Return what a Pipeline, or one within it, ends in; anything else as it is."""
    while is_pipeline(estimator):
        estimator = estimator.steps[-1][1]
    return estimator


def steps_before(estimator: Estimator) -> list[Any]:
    """Return the steps of a Pipeline that change rows before its detector sees them, in order."""
    before: list[Any] = []
    last: Any = estimator
    while is_pipeline(last):
        *steps, (_, last) = last.steps
        before += [step for _, step in steps if step not in (None, "passthrough")]
    return before


def pipeline_steps(estimator: Estimator) -> list[Any]:
    """Return the steps of a Pipeline that change rows, and its detector; or a detector alone."""
    return [*steps_before(estimator), last_step(estimator)]


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


@border
def check_fitted(estimator: Estimator) -> None:
    """Refuse a detector, or a Pipeline with a step, that is not fitted."""
    for step in pipeline_steps(estimator):
        try:
            check_is_fitted(step)
        except exceptions.NotFittedError:
            what = type(step).__name__
            raise NotFittedError(f"this {what} is not fitted yet; call fit first.") from None


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


def load_detector(path: str | Path) -> Estimator:
    """Read a detector, or a Pipeline that ends in one; refuse other content by its name."""
    loaded: Estimator = store.load(path)
    try:
        final_detector(loaded)
    except InputError:
        raise wrong_kind(path, "a detector", "pass one that `typica fit` wrote") from None
    return loaded


@border
def detector_input(estimator: Estimator, X: Any) -> Any:
    """Return X as the detector sees it: after all the steps of a Pipeline that stand before it.

    From a bank, a Pipeline takes the features.
    """
    last: Any = estimator
    while is_pipeline(last):
        if len(last.steps) > 1:
            X = _transformed(last, X.features if is_bank(X) else X)
        last = last.steps[-1][1]
    return X


def _transformed(pipeline: Pipeline, X: Any) -> Any:
    """Return what the steps before the last make of X; say in our words which is not fitted."""
    try:
        return pipeline[:-1].transform(X)
    except exceptions.NotFittedError:
        check_fitted(pipeline)
        raise


@border
def known_rows(estimator: Estimator, bank: Any) -> Any:
    """Return known inputs as the detector sees them; those of a bank keep labels and names."""
    if not is_bank(bank):
        return detector_input(estimator, bank)
    if not is_pipeline(estimator):
        return bank
    rows = detector_input(estimator, bank)
    return KnownRows(rows, bank_labels(bank), getattr(bank, "names", None), bank.origin)


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


def column_names(estimator: Estimator) -> list[str] | None:
    """Return the names of the columns that a detector or a Pipeline was fitted on, if they had any.

    Those of a data frame, or of a file that has a header.
    """
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


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
