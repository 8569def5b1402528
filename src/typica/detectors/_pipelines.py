"""A scikit-learn Pipeline that ends in a detector is taken wherever a detector is."""

from __future__ import annotations

import sys
from typing import Any, Protocol, TypeAlias, TypeGuard, TypeVar

import numpy as np
from sklearn import exceptions
from sklearn.utils.validation import check_is_fitted

from typica.detectors._banks import is_bank
from typica.detectors.base import Detector
from typica.errors import InputError, border
from typica.estimator import NotFittedError


class Pipeline(Protocol):
    """What is used of a scikit-learn Pipeline; that library has no types of its own."""

    steps: list[tuple[str, Any]]

    def __getitem__(self, part: slice) -> Any: ...
    def fit(self, X: Any, y: Any = None) -> Any: ...
    def score_samples(self, X: Any) -> Any: ...


Estimator: TypeAlias = Detector | Pipeline  # a detector, or a Pipeline that ends in one
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


@border
def check_fitted(estimator: Estimator) -> None:
    """Refuse a detector, or a Pipeline with a step, that is not fitted."""
    for step in pipeline_steps(estimator):
        try:
            check_is_fitted(step)
        except exceptions.NotFittedError:
            what = type(step).__name__
            raise NotFittedError(f"this {what} is not fitted yet; call fit first.") from None


@border
def detector_input(estimator: Estimator, X: Any) -> Any:
    """Return X as the detector sees it: after all the steps of a Pipeline that stand before it.

    From a bank, a Pipeline takes the features.
    """
    last: Any = estimator
    if is_pipeline(last) and getattr(X, "shape", (1,))[0] == 0:  # scikit-learn refuses no rows
        check_fitted(last)
        return np.empty((0, final_detector(last).n_features or 0))
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
