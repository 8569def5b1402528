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
    """Decide from now on by the scores of held-out in-distribution inputs X.

    A new in-distribution input is then rejected with probability at most alpha.

    Parameters
    ----------
    estimator
        A fitted detector, or a fitted Pipeline that ends in one; it is changed and returned.
    X
        Held-out inputs, which `fit` has not seen.
    alpha
        The false-alarm rate, 0.05 if neither it nor tpr is given.
    tpr
        1 - alpha, in its place.
    confidence
        With this probability over the draw of X, the false-alarm rate of this very estimator is at
        most alpha.
    by_class
        Compare an input only with those of the same predicted class.
    groups, predicted, source
        As `Detector.calibrate` takes them.

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
    """Take in one more batch of held-out inputs.

    Parameters
    ----------
    estimator
        A fitted detector, or a fitted Pipeline that ends in one; it is changed and returned.
    X
        Held-out inputs, which `fit` has not seen.
    alpha, tpr, confidence, by_class, groups
        As `calibrate` takes them, with the first batch only. Rare classes are not joined unless
        `groups` says so, because the length of a stream is not known.
    predicted, source
        As `Detector.calibrate` takes them.
    """
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
    """Note in a new calibration which detector or Pipeline made its scores, and return that."""
    detector = final_detector(estimator)
    made = detector.calibration_
    made.scored_by = fingerprint(estimator, made.scored_by)
    detector.decided_after(steps_before(estimator))
    return estimator


@border
def begin_calibration(
    estimator: Estimator, n: int | None = None, **options: Unpack[CalibrationOptions]
) -> Calibration:
    """Return a calibration without scores, for `add_scores` to fill part by part.

    Parameters
    ----------
    estimator
        A fitted detector, or a fitted Pipeline that ends in one.
    n
        How many rows there will be, if known; see `Detector.begin_calibration`.
    options
        alpha, tpr, confidence, by_class and groups, as `calibrate` takes them.
    """
    begun = final_detector(estimator).begin_calibration(n, **options)
    begun.scored_by = fingerprint(estimator, begun.scored_by)
    return begun


@border
def add_scores(
    estimator: Estimator, calibration: Calibration, X: Any, **options: Any
) -> Calibration:
    """Add the scores of held-out inputs X to a calibration, which is changed and returned.

    Parameters
    ----------
    estimator
        A fitted detector, or a fitted Pipeline that ends in one.
    calibration
        What `begin_calibration` returned for this estimator.
    X
        Held-out inputs, which `fit` has not seen.
    options
        predicted, source, start and left_out, as `Detector.add_scores` takes them.
    """
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
def copy_to_calibrate(estimator: E) -> E:
    """Return a copy of a detector or Pipeline, to be calibrated without changing the original."""
    final_detector(estimator)  # raises if it is something else
    copied = copy.copy(estimator)
    if is_pipeline(estimator):
        *before, (name, last) = estimator.steps
        copied.steps = [*before, (name, copy_to_calibrate(last))]
    return copied
