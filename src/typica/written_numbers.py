"""Numbers as they are written: the decimals that floats stand for, and percentages."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

Level = float | str | Fraction  # a number from 0 to 1, e.g. 0.05, "0.05" or Fraction(1, 20)


def exact(number: Any) -> Fraction:
    """Return the decimal that a number prints as, so that 0.9 of 10 is exactly 9.

    What is not a number gives -1.

    >>> exact(0.9) * 10 == 9, Fraction(0.9) * 10 == 9
    (True, False)
    """
    try:
        return Fraction(str(number))
    except (ValueError, ZeroDivisionError):
        return Fraction(-1)


def meant_decimal(share: Fraction) -> Fraction:
    """Return the decimal of at most 15 places that was meant by a float, if there is one."""
    short = exact(round(float(share), 15))
    is_meant = 0 < short < 1 and abs(short - share) < Fraction(1, 2**53)
    return short if is_meant else share


def percent(share: float) -> str:
    """Return a share as a percentage with two decimals.

    >>> percent(0.98765)
    '98.77'
    """
    return f"{100 * share:.2f}"
