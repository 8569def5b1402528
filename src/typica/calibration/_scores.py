"""Scores as calibrations take them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from typica.arrays import AnyArray, to_numpy
from typica.errors import InputError, border


@border
def check_scores(scores: Any) -> AnyArray:
    """Return scores as a calibration takes them: 1-D, float32 or float64, maybe infinite, not NaN.

    >>> check_scores([1, 2])
    array([1., 2.])
    """
    array = np.atleast_1d(to_numpy(scores))
    if array.ndim != 1 or array.dtype.kind not in "fiub":
        raise InputError(
            f"scores of shape {array.shape} and type {array.dtype}; "
            "pass a 1-D array of real numbers."
        )
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    if len(array) and np.isnan(array.min()):  # min passes NaN on
        first = np.argmax(np.isnan(array))
        raise InputError(f"score {first} is NaN; fix the input or the detector.")
    return array


@border
def check_threshold(threshold: float, dtype: Any, lowest: float) -> None:
    """Refuse a threshold below the lowest number of the scores' precision: all would reach it."""
    if -math.inf < threshold < float(lowest):
        raise InputError(f"the threshold {threshold:.3g} exceeds {dtype}; pass float64.")


def in_dtype(ordered: AnyArray, dtype: np.dtype[Any]) -> AnyArray:
    """Return ascending calibration scores in the precision of those they are compared with.

    Rounding keeps the order, and scores in float32 were made in that precision.
    """
    with np.errstate(over="ignore"):
        return ordered.astype(dtype, copy=False)
