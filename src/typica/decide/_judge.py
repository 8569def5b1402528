"""Judge and explain by a detector, or by a scikit-learn Pipeline that ends in one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from typica.arrays import Array, frame_index
from typica.detectors import (
    Estimator,
    KnownRows,
    bank_labels,
    detector_input,
    feature_names,
    final_detector,
    is_bank,
    is_pipeline,
)
from typica.errors import border
from typica.explanation import Explanation
from typica.verdicts import Verdicts
from typica.written_numbers import Level


@border
def p_values(
    estimator: Estimator,
    X: Any,
    *,
    randomised: bool = False,
    seed: Any = None,
    predicted: Any = None,
) -> Array:
    """Return the p-value of each row of X: how typical it is; see `Detector.p_values`.

    Parameters
    ----------
    estimator
        A calibrated detector, or a Pipeline that ends in one.
    X
        Inputs of the estimator.
    randomised
        Break ties at random, so that P(p <= alpha) = alpha exactly.
    seed
        Of these random numbers.
    predicted
        If calibrated by class: the class predicted for each row; `classify(X)` if None.
    """
    return final_detector(estimator).p_values(
        detector_input(estimator, X), randomised=randomised, seed=seed, predicted=predicted
    )


@border
def discoveries(
    estimator: Estimator,
    X: Any,
    *,
    fdr: Level = 0.1,
    method: Literal["bh", "storey"] = "bh",
    lam: Level = 0.5,
    predicted: Any = None,
) -> NDArray[np.bool_]:
    """Return True for rows out of distribution, of which a share `fdr` may be wrong on average.

    The calibration rows and the in-distribution rows of X must be independent and identically
    distributed.

    Parameters
    ----------
    estimator
        A calibrated detector, or a Pipeline that ends in one.
    X
        Inputs of the estimator, judged together.
    fdr
        The false discovery rate.
    method
        "bh" or "storey"; see `typica.fdr`.
    lam
        Of "storey" only.
    predicted
        If calibrated by class: the class predicted for each row; `classify(X)` if None.
    """
    return final_detector(estimator).discoveries(
        detector_input(estimator, X), fdr=fdr, method=method, lam=lam, predicted=predicted
    )


@border
def judge(
    estimator: Estimator,
    X: Any,
    alpha: Level | None = None,
    confidence: Level | None = None,
    fdr: Level | None = None,
    *,
    tpr: Level | None = None,
    predicted: Any = None,
    groups: Any = None,
) -> Verdicts:
    """Return the verdicts of a fitted detector, or a Pipeline that ends in one, on rows X.

    Parameters
    ----------
    estimator
        A fitted detector, or a fitted Pipeline that ends in one.
    X
        Inputs of the estimator.
    alpha
        The false-alarm rate, in place of the one of `calibrate`.
    confidence
        In place of the one of `calibrate`.
    fdr
        Reject by a false discovery rate in place of a threshold.
    tpr
        1 - alpha, in its place.
    predicted
        If calibrated by class: the class predicted for each row; `classify(X)` if None.
    groups
        What each row belongs to (n,), e.g. the image of a box: the rows of a group are judged
        together, and `groups` of the result has the verdicts on the groups.

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
    verdicts = final_detector(estimator).judge(
        detector_input(estimator, X),
        alpha=alpha,
        tpr=tpr,
        confidence=confidence,
        fdr=fdr,
        predicted=predicted,
        groups=groups,
    )
    index = frame_index(X)  # which the steps of a Pipeline lose
    return verdicts if index is None else replace(verdicts, index=index)


@border
def explain(
    estimator: Estimator,
    X: Any,
    bank: Any = None,
    *,
    alpha: Level | None = None,
    tpr: Level | None = None,
    confidence: Level | None = None,
    predicted: Any = None,
) -> list[Explanation]:
    """Say for each row of X why it is accepted or rejected.

    If a Pipeline was fitted on a data frame, features have the names that the steps before the
    detector give them.

    Parameters
    ----------
    estimator
        A fitted detector, or a fitted Pipeline that ends in one.
    X
        Inputs of the estimator.
    bank
        Known inputs, of which each explanation names the nearest; see `Detector.explain`.
    alpha, tpr, confidence, predicted
        As `judge` takes them.
    """
    found = final_detector(estimator).explain(
        detector_input(estimator, X),
        alpha=alpha,
        tpr=tpr,
        confidence=confidence,
        predicted=predicted,
        bank=None if bank is None else _known_rows(estimator, bank),
    )
    names = feature_names(estimator)
    if names is None:
        return found
    return [explanation.named(names) for explanation in found]


def _known_rows(estimator: Estimator, bank: Any) -> Any:
    """Return known inputs as the detector sees them; those of a bank keep labels and names."""
    if not is_bank(bank):
        return detector_input(estimator, bank)
    if not is_pipeline(estimator):
        return bank
    rows = detector_input(estimator, bank)
    return KnownRows(rows, bank_labels(bank), getattr(bank, "names", None), bank.origin)
