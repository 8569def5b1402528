"""Calibrate and explain a detector, or a scikit-learn Pipeline that ends in one."""

from __future__ import annotations

from typing import Any

from typica.detectors import detector_input, final_detector
from typica.errors import border
from typica.explanation import Explanation


@border
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
    final_detector(estimator).calibrate(detector_input(estimator, X), tpr=tpr)
    return estimator


@border
def explain(estimator: Any, X: Any) -> list[Explanation]:
    """Explain the decision on each row of X by a fitted detector or a Pipeline that ends in one."""
    return final_detector(estimator).explain(detector_input(estimator, X))


def remembered(estimator: Any) -> dict[str, Any] | None:
    """Return what the detector remembers of the network whose features it was fitted on, if anything."""
    source: dict[str, Any] | None = getattr(final_detector(estimator), "source_", None)
    return source
