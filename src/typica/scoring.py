"""A scorer for scikit-learn's model selection: how well a detector tells the held-out fold from given OOD data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from typica.arrays import to_numpy
from typica.errors import InputError
from typica.metrics import evaluate

_METRICS = ("auroc", "aupr_in", "aupr_out", "fpr", "detection_error")
_LOWER_IS_BETTER = ("fpr", "detection_error")


def ood_scorer(ood: Any, metric: str = "auroc") -> Callable[..., float]:
    """Return a scorer for `GridSearchCV` that maximises AUROC (or another metric) against the inputs `ood`.

    Choose parameters on one set of OOD inputs and report on others, or the report will be too good.

    >>> import numpy as np, typica
    >>> from sklearn.model_selection import GridSearchCV
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(200) % 2
    >>> X = rng.normal(size=(200, 4)) + 3 * np.eye(4)[y]
    >>> search = GridSearchCV(typica.CTM(), {"correct_only": [False]}, scoring=ood_scorer(rng.normal(size=(99, 4))))
    >>> float(search.fit(X, y).best_score_) > 0.9
    True
    """
    if metric not in _METRICS:
        raise InputError(
            f"ood_scorer: metric {metric!r} is unknown; choose one of {', '.join(_METRICS)}."
        )
    sign = -1.0 if metric in _LOWER_IS_BETTER else 1.0

    def scorer(estimator: Any, X: Any, y: Any = None) -> float:
        result = evaluate(
            to_numpy(estimator.score_samples(X)), to_numpy(estimator.score_samples(ood))
        )
        return sign * float(getattr(result, metric))

    return scorer
