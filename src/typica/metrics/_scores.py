"""Scores as metrics take them."""

import numpy as np

from typica.arrays import AnyArray, Array, to_numpy
from typica.errors import InputError


def checked_scores(scores: Array, what: str) -> AnyArray:
    """Return the scores that a metric is computed from, checked: float16, float32 or float64.

    what: the name of the argument. Infinity is a legal score, NaN is not.
    """
    try:
        array = to_numpy(scores)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{what} is not an array ({error}); pass a 1-D array of numbers."
        ) from error
    if array.dtype.kind not in "fiub":
        raise InputError(f"{what} has dtype {array.dtype}; pass real numbers.")
    if array.ndim != 1 or array.size == 0:
        raise InputError(f"{what} has shape {array.shape}; pass a 1-D array of one or more scores.")
    if array.dtype.char not in "efd":
        # Other types hold numbers that are not Python floats, so the threshold would not be exact.
        array = array.astype(np.float64)
    if np.isnan(array.min()):  # min passes NaN on
        raise InputError(
            f"{what} has {np.isnan(array).sum()} NaN of {array.size} scores; fix or drop them."
        )
    return array
