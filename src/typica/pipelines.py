"""Calibrate and explain a detector, or a scikit-learn Pipeline that ends in one."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import Pipeline

from typica.detectors.base import Detector
from typica.errors import InputError
from typica.explanation import Explanation


def calibrate(estimator: Any, X: Any, tpr: float = 0.95) -> Any:
    """Set the threshold from held-out in-distribution inputs so that at least `tpr` of such inputs is kept.

    `estimator` is a fitted detector or a fitted Pipeline that ends in one; it is changed and
    returned.

    >>> import numpy as np, typica
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> rng = np.random.default_rng(0)
    >>> pipeline = make_pipeline(StandardScaler(), typica.CTM()).fit(rng.normal(size=(50, 4)), [0, 1] * 25)
    >>> pipeline = typica.calibrate(pipeline, rng.normal(size=(100, 4)), tpr=0.9)
    >>> pipeline[-1].calibration_.k
    10
    """
    final_detector(estimator, "calibrate").calibrate(detector_input(estimator, X), tpr=tpr)
    return estimator


def explain(estimator: Any, X: Any) -> list[Explanation]:
    """Explain the decision on each row of X by a fitted detector or a Pipeline that ends in one."""
    return final_detector(estimator, "explain").explain(detector_input(estimator, X))


def final_detector(estimator: Any, where: str) -> Detector:
    """Return the detector itself, or the one that a Pipeline ends in."""
    detector = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    if not isinstance(detector, Detector):
        raise InputError(
            f"{where}: {type(detector).__name__} is not a detector; pass a detector or a scikit-learn Pipeline "
            "that ends in one."
        )
    return detector


def remembered(estimator: Any) -> dict[str, Any] | None:
    """Return what the detector remembers of the network whose features it was fitted on, if anything."""
    source: dict[str, Any] | None = getattr(
        final_detector(estimator, "remembered"), "source_", None
    )
    return source


def detector_input(estimator: Any, X: Any) -> Any:
    """Return X as the detector sees it: after all the steps of a Pipeline that stand before it."""
    if isinstance(estimator, Pipeline) and len(estimator.steps) > 1:
        return estimator[:-1].transform(X)
    return X
