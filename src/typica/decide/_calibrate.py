"""Calibrate a detector, or a scikit-learn Pipeline that ends in one."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Unpack

from typica.calibration import Calibration, CalibrationOptions
from typica.decide._identity import fingerprint
from typica.detectors import (
    E,
    Estimator,
    detector_input,
    final_detector,
    is_pipeline,
    steps_before,
)
from typica.errors import border
from typica.written_numbers import Level


@border
def calibrate(
    estimator: E,
    X: Any,
    *,
    alpha: Level | None = None,
    tpr: Level | None = None,
    confidence: Level | None = None,
    by_class: bool = False,
    groups: Mapping[Any, str] | None = None,
    predicted: Any = None,
    source: str = "",
) -> E:
    """Take the scores of held-out in-distribution inputs X as those to decide by.

    A new in-distribution input is then rejected with probability at most alpha.

    Parameters
    ----------
    estimator : a fitted detector, or a fitted Pipeline that ends in one; it is changed and
        returned.
    X : held-out inputs, which `fit` has not seen.
    alpha : the false-alarm rate, 0.05 if neither it nor tpr is given.
    tpr : 1 - alpha, in its place.
    confidence : with that probability over the draw of X, the false-alarm rate of this very
        estimator is at most alpha.
    by_class : whether an input is compared only with those of the same predicted class.
    groups, predicted, source : as `Detector.calibrate` takes them.

    >>> import numpy as np, typica
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> rng = np.random.default_rng(0)
    >>> pipeline = make_pipeline(StandardScaler(), typica.CTM())
    >>> pipeline = pipeline.fit(rng.normal(size=(50, 4)), [0, 1] * 25)
    >>> pipeline = typica.calibrate(pipeline, rng.normal(size=(100, 4)), tpr=0.9)
    >>> pipeline[-1].calibration_.k
    10
    """
    detector = final_detector(estimator)
    detector.calibrate(
        detector_input(estimator, X),
        alpha=alpha,
        tpr=tpr,
        confidence=confidence,
        by_class=by_class,
        groups=groups,
        predicted=predicted,
        source=source,
    )
    return _known_as_its_own(estimator)


@border
def partial_calibrate(
    estimator: E,
    X: Any,
    *,
    alpha: Level | None = None,
    tpr: Level | None = None,
    confidence: Level | None = None,
    by_class: bool | None = None,
    groups: Mapping[Any, str] | None = None,
    predicted: Any = None,
    source: str = "",
) -> E:
    """Take in one more batch of held-out inputs; see `Detector.partial_calibrate`."""
    detector = final_detector(estimator)
    begun = detector.current_calibration()
    detector.partial_calibrate(
        detector_input(estimator, X),
        alpha=alpha,
        tpr=tpr,
        confidence=confidence,
        by_class=by_class,
        groups=groups,
        predicted=predicted,
        source=source,
    )
    return estimator if detector.calibration_ is begun else _known_as_its_own(estimator)


def _known_as_its_own(estimator: E) -> E:
    """Note on a new calibration which detector or Pipeline made the scores, and return that."""
    detector = final_detector(estimator)
    detector.calibration_.scored_by = fingerprint(estimator)
    detector.decided_after(steps_before(estimator))
    return estimator


@border
def begin_calibration(
    estimator: Estimator, n: int | None = None, **options: Unpack[CalibrationOptions]
) -> Calibration:
    """Return a calibration without scores; see `Detector.begin_calibration`."""
    begun = final_detector(estimator).begin_calibration(n, **options)
    begun.scored_by = fingerprint(estimator)
    return begun


@border
def add_scores(
    estimator: Estimator, calibration: Calibration, X: Any, **options: Any
) -> Calibration:
    """Add the scores of held-out rows to a calibration; see `Detector.add_scores`."""
    rows = detector_input(estimator, X)
    return final_detector(estimator).add_scores(calibration, rows, **options)


@border
def set_calibration(estimator: E, calibration: Calibration) -> E:
    """Give a detector or a Pipeline a calibration that was filled elsewhere, and return it."""
    detector = final_detector(estimator)
    detector.set_calibration(calibration, fingerprint=fingerprint(estimator))
    detector.decided_after(steps_before(estimator))
    return estimator


@border
def has_threshold(estimator: Estimator) -> bool:
    """Tell whether a fitted detector or Pipeline has a threshold: of `calibrate`, or of `fit`."""
    detector = final_detector(estimator)
    calibrated = detector.current_calibration() is not None
    return calibrated or hasattr(detector, "training_offset_")


@border
def copy_to_calibrate(estimator: E) -> E:
    """Return a copy of a detector or Pipeline that can be calibrated while that one stays."""
    final_detector(estimator)  # says what else it is
    copied = copy.copy(estimator)
    if is_pipeline(estimator):
        *before, (name, last) = estimator.steps
        copied.steps = [*before, (name, copy_to_calibrate(last))]
    return copied
