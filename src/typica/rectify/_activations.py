"""What the rectifiers that look at the largest activations of a row share."""

from __future__ import annotations

import numpy as np

from typica.arrays import Array, is_numpy, namespace

LARGEST_EXPONENT = 44.0  # its exponential is the square root of the largest float32


def kept_count(width: int, percentile: float) -> int:
    """Return how many of `width` activations a row keeps: those above its percentile, at least one.

    >>> kept_count(342, 90), kept_count(3, 90)
    (34, 1)
    """
    return max(1, width - round(width * percentile / 100))


def positive_part(Z: Array) -> Array:
    """Return max(Z, 0), whose gradient at 0 is 0."""
    xp = namespace(Z)
    return xp.where(Z > 0, Z, xp.zeros_like(Z))


def largest(P: Array, k: int) -> Array:
    """Return the k largest numbers of each row of P (n, m), in any order.

    >>> sorted(largest(np.array([[5.0, 1.0, 7.0]]), 2)[0].tolist())
    [5.0, 7.0]
    """
    first = P.shape[1] - k
    ordered = np.partition(P, first, axis=1) if is_numpy(P) else namespace(P).sort(P, axis=1)
    return ordered[:, first:]


def row_sum(P: Array, unit: Array) -> Array:
    """Return the sums (n, 1) of the rows of P in units (n, 1), which keep them from overflow."""
    return namespace(P).sum(P / unit, axis=1, keepdims=True)


def row_unit(top: Array) -> Array:
    """Return the largest number (n, 1) in each row, 1 where that is 0: safe to divide by."""
    xp = namespace(top)
    most = xp.max(top, axis=1, keepdims=True)
    return xp.where(most > 0, most, xp.ones_like(most))


def sharpening(P: Array, top: Array) -> Array:
    """Return exp(r) (n, 1), r = the sum of a row of P >= 0 over that of `top`, its largest.

    r is at least 1, except that it is 0 for a row of zeros, and at most the share of numbers that
    `top` holds, inverted. It is capped at `LARGEST_EXPONENT`, which takes a percentile above 97, so
    that float32 suffices.
    """
    xp = namespace(P)
    unit = row_unit(top)
    part = row_sum(top, unit)
    ratio = row_sum(P, unit) / xp.where(part > 0, part, xp.ones_like(part))
    return xp.exp(xp.minimum(ratio, xp.full_like(ratio, LARGEST_EXPONENT)))
