"""What was asked for: a false-alarm rate, with what confidence it is to hold, and for whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypedDict

from typica.checks import check_share
from typica.errors import InputError, border, given
from typica.written_numbers import Level

DEFAULT_ALPHA = "0.05"


class CalibrationOptions(TypedDict, total=False):
    """What a `Calibration` is made with: alpha, tpr, confidence, by_class, groups, as keywords."""

    alpha: Level | None
    tpr: Level | None
    confidence: Level | None
    by_class: bool
    groups: Mapping[Any, str] | None


@dataclass(frozen=True)
class Levels:
    """The false-alarm rate alpha and the confidence over the calibration draw, as exact fractions.

    >>> Levels.of(tpr=0.9) == Levels.of(alpha=0.1)
    True
    """

    alpha: Fraction
    confidence: Fraction | None = None

    @classmethod
    @border
    def of(
        cls, alpha: Level | None = None, tpr: Level | None = None, confidence: Level | None = None
    ) -> Levels:
        """Return the levels for an alpha or for a tpr = 1 - alpha; alpha = 0.05 for neither."""
        share = false_alarm_rate(alpha, tpr)
        if confidence is None:
            return cls(share)
        return cls(share, check_share(confidence, "confidence"))

    def to_dict(self) -> dict[str, float | None]:
        """Return both as plain numbers."""
        confidence = None if self.confidence is None else float(self.confidence)
        return {"alpha": float(self.alpha), "confidence": confidence}

    def __str__(self) -> str:
        text = f"alpha={float(self.alpha):g}"
        if self.confidence is None:
            return text
        return f"{text} with confidence={float(self.confidence):g}"


@border
def false_alarm_rate(alpha: Level | None = None, tpr: Level | None = None) -> Fraction:
    """Return alpha, however it was given: itself, or as tpr = 1 - alpha; 0.05 for neither.

    >>> false_alarm_rate(0.1) == false_alarm_rate(tpr=0.9) == Fraction(1, 10)
    True
    """
    if alpha is not None and tpr is not None:
        both = f"{given('alpha', alpha)} and {given('tpr', tpr)}"
        raise InputError(f"{both} say the same thing twice; pass one of them.")
    if tpr is not None:
        return 1 - check_share(tpr, "tpr", one=True)
    return check_share(DEFAULT_ALPHA if alpha is None else alpha, "alpha", zero=True)
