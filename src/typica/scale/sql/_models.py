"""What SQL needs from a fitted detector: a table with a vector for each class, and a rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from typica.arrays import AnyArray
from typica.detectors import Detector, is_pipeline
from typica.errors import InputError
from typica.estimator import NotFittedError
from typica.linalg import Floats
from typica.scale.sql._dialects import Dialect

Score = Callable[[Dialect], str]  # an expression of the similarities s and their largest, top


@dataclass(frozen=True)
class Table:
    """Vectors (R, m), one row each, with a class, a number beside it, and a threshold, if any."""

    vectors: Floats
    classes: AnyArray | None = None
    shifts: Floats | None = None
    thresholds: Floats | None = None


@dataclass(frozen=True)
class Model:
    """How rows are scored.

    rule: what a row's similarity s to a class is: the cosine; minus half the squared distance,
    along `axes`; or the logit, which is the row itself if there are no `means`. score: makes the
    score from s and its largest, top. known: whether `means` holds the vectors, not a fit in SQL.
    threshold: one for all classes.
    """

    rule: str
    score: Score
    width: int | None
    means: Table | None = None
    axes: Table | None = None
    known: bool = True
    threshold: float | None = None

    @property
    def has_table(self) -> bool:
        """Whether a table of vectors is read."""
        return self.means is not None or not self.known


def model_of(detector: Any) -> Model:
    """Return what SQL needs from a fitted detector, or from "ctm", for means fitted in SQL."""
    if isinstance(detector, str):
        return _fitted_in_sql(detector)
    kind = getattr(detector, "kind", None)
    if is_pipeline(detector) or kind not in _MODELS:
        raise InputError(
            f"{type(detector).__name__} cannot be written as SQL; pass one of "
            f"{', '.join(_MODELS)}, or score with Dask, Ray or Spark, which run any detector."
        )
    detector._check_fitted()
    detector._prepare()
    return _MODELS[kind](detector)


def _fitted_in_sql(name: str) -> Model:
    if name.lower() != "ctm":
        raise InputError(
            f"{name!r} cannot be fitted in SQL; pass 'ctm', or a fitted detector of another kind."
        )
    return Model("cosine", _largest, width=None, known=False)


def _cosine(detector: Any) -> Model:
    return _of_classes(detector, "cosine", _largest, detector._directions)


def _distance(detector: Any) -> Model:
    factor = detector._factor
    axes = Table(factor.T, shifts=detector._center @ factor)
    return _of_classes(detector, "distance", _largest, detector._means, axes=axes)


def _logits(detector: Any) -> Model:
    score = _SCORES[detector.kind](float(getattr(detector, "temperature", 1.0)))
    head = detector.head
    if head is None:
        width = getattr(detector, "n_features_in_", None)
        return Model("logits", score, width=width, threshold=_threshold(detector))
    weight, bias = head.weight.astype(np.float64), head.bias.astype(np.float64)
    return _of_classes(detector, "logits", score, weight, shifts=bias)


def _of_classes(
    detector: Any,
    rule: str,
    score: Score,
    vectors: Floats,
    *,
    shifts: Floats | None = None,
    axes: Table | None = None,
) -> Model:
    classes = detector.classes_
    means = Table(vectors, classes, shifts, _thresholds(detector, classes))
    threshold = None if means.thresholds is not None else _threshold(detector)
    return Model(rule, score, detector.n_features, means, axes, threshold=threshold)


def _threshold(detector: Detector) -> float | None:
    """Return the one threshold of a detector that SQL compares with, if it has one."""
    calibration = detector.current_calibration()
    if calibration is not None and calibration.by_class:
        raise InputError(
            "the detector is calibrated by class, and the classes of bare logits are not known; "
            "pass a detector with a head, or calibrate it without by_class."
        )
    try:
        return float(detector.offset_)
    except NotFittedError:
        return None


def _thresholds(detector: Detector, classes: AnyArray) -> Floats | None:
    """Return the thresholds that the table in SQL holds, if classes have their own."""
    calibration = detector.current_calibration()
    if calibration is None or not calibration.by_class:
        return None
    found: Floats = calibration.offsets(np.zeros(len(classes)), classes)
    return found


def _largest(sql: Dialect) -> str:
    return "top"


def _msp(temperature: float) -> Score:
    """Return MSP as SQL."""

    def score(sql: Dialect) -> str:
        return f"1 / {_exponentials(sql, temperature)}"

    return score


def _energy(temperature: float) -> Score:
    """Return Energy as SQL."""

    def score(sql: Dialect) -> str:
        logarithm = f"ln({_exponentials(sql, temperature)})"
        return f"top + {sql.number(temperature)} * {logarithm}"

    return score


def _max_logit(temperature: float) -> Score:
    """Return MaxLogit as SQL."""
    return _largest


def _exponentials(sql: Dialect, temperature: float) -> str:
    """Return the sum of exp((s - top) / temperature), whose largest term is 1."""
    term = sql.exp(f"(x - top) / {sql.number(temperature)}")
    return sql.total(sql.each("s", term))


_MODELS: dict[str, Callable[[Any], Model]] = {
    "ctm": _cosine,
    "cw": _cosine,
    "mahalanobis": _distance,
    "msp": _logits,
    "energy": _logits,
    "max_logit": _logits,
}
_SCORES: dict[str, Callable[[float], Score]] = {
    "msp": _msp,
    "energy": _energy,
    "max_logit": _max_logit,
}
