"""Decide by a detector, or by a scikit-learn Pipeline that ends in one."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica import store
from typica.arrays import Array
from typica.calibration import Calibration
from typica.detectors import (
    calibration_of,
    detector_input,
    feature_names,
    final_detector,
    known_rows,
)
from typica.errors import InputError, border
from typica.estimator import is_pipeline
from typica.explanation import Explanation
from typica.origin import Origin
from typica.verdicts import Verdicts


@border
def calibrate(estimator: Any, X: Any, **options: Any) -> Any:
    """Take the scores of held-out in-distribution inputs X as those to decide by.

    `estimator` is a fitted detector or a fitted Pipeline that ends in one; it is changed and
    returned. The options are those of `Detector.calibrate`: alpha or tpr, confidence, by_class,
    groups, predicted, source.

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
    detector.calibrate(detector_input(estimator, X), **options)
    detector.calibration_.fingerprint = fingerprint(estimator)
    return estimator


@border
def partial_calibrate(estimator: Any, X: Any, **options: Any) -> Any:
    """Take in one more batch of held-out inputs; see `Detector.partial_calibrate`."""
    detector = final_detector(estimator)
    begun = calibration_of(detector)
    detector.partial_calibrate(detector_input(estimator, X), **options)
    if detector.calibration_ is not begun:
        detector.calibration_.fingerprint = fingerprint(estimator)
    return estimator


@border
def begin_calibration(estimator: Any, n: int | None = None, **options: Any) -> Calibration:
    """Return a calibration without scores; see `Detector.begin_calibration`."""
    begun = final_detector(estimator).begin_calibration(n, **options)
    begun.fingerprint = fingerprint(estimator)
    return begun


@border
def add_scores(estimator: Any, calibration: Calibration, X: Any, **options: Any) -> Calibration:
    """Add the scores of held-out rows to a calibration; see `Detector.add_scores`."""
    rows = detector_input(estimator, X)
    return final_detector(estimator).add_scores(calibration, rows, **options)


@border
def set_calibration(estimator: Any, calibration: Calibration) -> Any:
    """Decide by a calibration that was filled elsewhere; the estimator is changed and returned."""
    final_detector(estimator).set_calibration(calibration)
    return estimator


@border
def p_values(estimator: Any, X: Any, **options: Any) -> Array:
    """Return the conformal p-value of each row of X; see `Detector.p_values`."""
    return final_detector(estimator).p_values(detector_input(estimator, X), **options)


@border
def discoveries(estimator: Any, X: Any, **options: Any) -> NDArray[np.bool_]:
    """Return True for rows out of distribution, by a false discovery rate; see there."""
    return final_detector(estimator).discoveries(detector_input(estimator, X), **options)


@border
def judge(
    estimator: Any,
    X: Any,
    alpha: Any = None,
    confidence: Any = None,
    fdr: Any = None,
    *,
    tpr: Any = None,
    predicted: Any = None,
    groups: Any = None,
) -> Verdicts:
    """Return the verdicts of a fitted detector, or a Pipeline that ends in one, on rows X.

    alpha (or tpr = 1 - alpha), confidence: other ones than those of `calibrate`. fdr: reject by a
    false discovery rate in place of a threshold. predicted: the classifier's classes, where it was
    calibrated by them. groups: what each row belongs to, e.g. the image of a box (n,): the rows of
    a group are judged together, and `groups` of the result has the verdicts on the groups.

    >>> import numpy as np, typica
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(300) % 3
    >>> X = rng.random((300, 8)) + 4 * np.eye(3, 8)[y]
    >>> detector = typica.CTM().fit(X[:100], y[:100]).calibrate(X[100:299])
    >>> judge(detector, np.vstack([X[299], -X[299]])).verdict.tolist()
    ['typical', 'atypical']
    >>> boxes = judge(detector, X[100:110], groups=["a.jpg", "b.jpg"] * 5)
    >>> boxes.groups
    2 groups: 2 typical, 0 atypical
    """
    return final_detector(estimator).judge(
        detector_input(estimator, X),
        alpha=alpha,
        tpr=tpr,
        confidence=confidence,
        fdr=fdr,
        predicted=predicted,
        groups=groups,
    )


@border
def explain(estimator: Any, X: Any, bank: Any = None, **options: Any) -> list[Explanation]:
    """Explain the decision on each row of X; see `Detector.explain`.

    Of a Pipeline that was fitted on a data frame, features are named as the steps before the
    detector name them.
    """
    if bank is not None:
        options["bank"] = known_rows(estimator, bank)
    found = final_detector(estimator).explain(detector_input(estimator, X), **options)
    names = feature_names(estimator)
    if names is None:
        return found
    return [explanation.named(names) for explanation in found]


def origin_of(estimator: Any) -> Origin | None:
    """Return the network whose features the detector was fitted on, where it knows."""
    return getattr(final_detector(estimator), "origin_", None)


def fingerprint(estimator: Any) -> str:
    """Return the SHA-256 of all that makes the scores; "" for what cannot be stored.

    >>> import numpy as np, typica
    >>> one, other = (typica.CTM().fit(np.eye(20) + shift, range(20)) for shift in (0.0, 0.1))
    >>> fingerprint(one) == fingerprint(one), fingerprint(one) == fingerprint(other)
    (True, False)
    """
    detector = final_detector(estimator)
    own = detector.fingerprint()
    if not own or not is_pipeline(estimator):
        return own
    try:
        steps = [[name, store.fingerprint(step)] for name, step in estimator.steps[:-1]]
    except InputError:
        return ""
    return hashlib.sha256(f"{steps} {own}".encode()).hexdigest()
