"""Fit a detector, or a scikit-learn Pipeline that ends in one, on rows or on a bank."""

from __future__ import annotations

from typing import Any

from typica.detectors import E, bank_labels, final_detector, is_bank
from typica.errors import border


@border
def fit(estimator: E, X: Any, y: Any = None) -> E:
    """Fit a detector or a Pipeline on rows X with their labels y, or on a bank; return it.

    From a bank, a Pipeline learns features and labels, and its detector keeps the origin, so that
    the Pipeline can judge images.

    >>> import numpy as np, typica
    >>> from sklearn.pipeline import make_pipeline
    >>> pipeline = make_pipeline(typica.L2Normalise(), typica.CTM())
    >>> fit(pipeline, np.eye(20), list(range(20)))[-1]
    CTM: 20 classes, 20 features, threshold 1 from training rows
    """
    detector: Any = final_detector(estimator)
    if detector is estimator or not is_bank(X):
        return estimator.fit(X, y)
    labels = bank_labels(X) if y is None else y
    estimator.fit(X.features, labels)
    if X.origin is not None:
        detector.origin_ = X.origin
    return estimator
