"""Data with classes, a head that fits them, and every detector."""

from __future__ import annotations

import typica
from typica.testing import Case, Data, make_data

__all__ = ["SMALL", "Data", "case", "fitted", "make", "make_data"]


def make(name: str, data: Data) -> typica.Detector:
    """Make an unfitted detector by its name.

    It gets a head if it needs one, and parameters that suit small data.
    """
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


def case(name: str, data: Data) -> Case:
    return Case(lambda: make(name, data), data)
