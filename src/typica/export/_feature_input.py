"""What goes into a detector or a Pipeline: rows of which width, and the head that they have."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import Pipeline

from typica.errors import InputError
from typica.head import Head


def input_width(estimator: Any) -> int:
    """Return how many features a row has that goes in."""
    first = steps_of(estimator)[0]
    width = first.n_features if hasattr(first, "n_features") else first.n_features_in_
    if width is None:
        raise InputError("how many features a row has is not known yet; fit it first.")
    return int(width)


def input_head(estimator: Any) -> Head | None:
    """Return the head that makes logits of the features that go in, where there is one."""
    width = input_width(estimator)
    for step in steps_of(estimator):
        head: Head | None = getattr(step, "head", None)
        if head is not None and head.n_features == width:
            return head
    return None


def steps_of(estimator: Any) -> list[Any]:
    """Return the steps of a Pipeline, or the detector alone."""
    if isinstance(estimator, Pipeline):
        return [step for _, step in estimator.steps]
    return [estimator]
