"""What the rectifiers that look at the largest activations of a row share."""

from __future__ import annotations

from typica.arrays import Array, namespace
from typica.linalg import row_unit, sum_in_units

LARGEST_EXPONENT = 44.0  # its exponential is the square root of the largest float32


def positive_part(Z: Array) -> Array:
    """Return the activations that rectifiers shape, max(Z, 0); the gradient at 0 is 0."""
    xp = namespace(Z)
    return xp.where(Z > 0, Z, xp.zeros_like(Z))


def kept_count(width: int, percentile: float) -> int:
    """Return how many of `width` activations a row keeps: those above its percentile, at least one.

    >>> kept_count(342, 90), kept_count(3, 90)
    (34, 1)
    """
    return max(1, width - round(width * percentile / 100))


def sharpening(P: Array, top: Array) -> Array:
    """Return the factor exp(r) (n, 1) of SCALE and ASH-S: r = sum of a row of P >= 0 over `top`'s.

    top: the largest of each row. r is 0 for a row of zeros, else at least 1 and at most 1 over the
    share of numbers that `top` holds. It is capped at `LARGEST_EXPONENT`, which only matters for a
    percentile above 97, so that float32 suffices.
    """
    xp = namespace(P)
    unit = row_unit(top)
    part = sum_in_units(top, unit)
    ratio = sum_in_units(P, unit) / xp.where(part > 0, part, xp.ones_like(part))
    return xp.exp(xp.minimum(ratio, xp.full_like(ratio, LARGEST_EXPONENT)))
