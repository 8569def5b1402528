"""The provisional threshold of `fit`: from a sample of the training rows themselves."""

from __future__ import annotations

import numpy as np

from typica.arrays import AnyArray, Array, to_numpy
from typica.calibration import Levels, guaranteed_rank, threshold_at
from typica.errors import CalibrationWarning, InputError, by_caller, warn

TRAINING_SAMPLE = 2048  # how many training rows the provisional threshold of `fit` looks at
TRAINING_TPR = 0.95


def training_sample(Z: Array) -> Array:
    """Return the rows that the threshold looks at, the same ones each time."""
    if Z.shape[0] <= TRAINING_SAMPLE:
        return Z
    chosen = np.random.default_rng(0).choice(Z.shape[0], TRAINING_SAMPLE, replace=False)
    return to_numpy(Z)[np.sort(chosen)]


def training_threshold(scores: AnyArray, tolerance: float) -> float:
    """Return the threshold that keeps TRAINING_TPR of these scores.

    The row that sets it is a training row: rounding, which depends on the batch that a row comes
    in, must not reject it when it comes again. tolerance: how far scores may stray, relative to
    the largest.
    """
    k = guaranteed_rank(len(scores), Levels.of(tpr=TRAINING_TPR).alpha)
    if k == 0:
        warn(
            f"{len(scores)} training rows are too few for a threshold that rejects anything; "
            f"{calibrate_first()}.",
            CalibrationWarning,
        )
    threshold = threshold_at(k, np.sort(scores))
    if k and threshold == -np.inf:
        threshold = _lowest_finite(scores)  # -inf is never typical
    largest = float(np.abs(scores[np.isfinite(scores)]).max(initial=0))
    return threshold - tolerance * largest


def calibrate_first() -> str:
    """Return how to calibrate, in Python or in the shell."""
    how = by_caller("call calibrate", "run `typica calibrate`")
    return f"{how} with held-out inputs"


def _lowest_finite(scores: AnyArray) -> float:
    finite = scores[np.isfinite(scores)]
    if not len(finite):
        raise InputError("no training row has a finite score; rescale the features.")
    return float(finite.min())
