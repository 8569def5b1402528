"""Data with classes, a head that fits them, and every detector."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import typica


class Data(NamedTuple):
    """Features of `C` classes as a ReLU network makes them, a head that classifies them, and strangers."""

    train: NDArray[np.float64]
    labels: NDArray[np.int64]
    held_out: NDArray[np.float64]
    test: NDArray[np.float64]
    ood: NDArray[np.float64]
    head: typica.Head


def make_data(n: int = 240, m: int = 12, C: int = 4, seed: int = 0) -> Data:
    """Rows of class k lie around a direction of its own; the strangers lie where no class does."""
    rng = np.random.default_rng(seed)
    directions = np.eye(C, m) * 4 + rng.random((C, m))
    labels = np.arange(n) % C

    def rows(count: int) -> NDArray[np.float64]:
        return np.maximum(
            directions[np.arange(count) % C] + rng.normal(scale=0.6, size=(count, m)), 0
        )

    ood = np.maximum(rng.normal(size=(n // 2, m)) + 2 * np.eye(1, m, m - 1), 0)
    return Data(rows(n), labels, rows(n // 2), rows(n // 2), ood, typica.Head(directions))


def make(name: str, data: Data) -> typica.Detector:
    """Make an unfitted detector by its name, with a head if it needs one and parameters that suit small data."""
    cls = typica.detector_class(name)
    params: dict[str, object] = dict(SMALL.get(name, {}))
    if cls.tags.needs_head or cls.tags.reads == "logits":
        params["head"] = data.head
    return cls(**params)


SMALL: dict[str, dict[str, object]] = {
    "isolation_forest": {"trees": 30},
    "knn": {"k": 3},
    "nac": {"alpha": 0.3, "bins": 50, "enough": 5},
    "nnguide": {"k": 3, "subsample": None},
    "weiper": {"repeats": 5, "bins": 20, "smoothing": 4},
}


def fitted(name: str, data: Data) -> typica.Detector:
    return make(name, data).fit(data.train, data.labels)
