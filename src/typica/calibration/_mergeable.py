"""Which calibrations may be merged: those of equal detectors, alike made, on other rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from typica.errors import InputError

if TYPE_CHECKING:
    from typica.calibration._calibration import Calibration


def check_mergeable(one: Calibration, other: Calibration) -> None:
    """Raise unless the scores of `other` may be taken into the calibration `one`."""
    if other is one:
        raise InputError("it cannot merge with itself; pass another Calibration.")
    if (one.by_class, one.taxonomy) != (other.by_class, other.taxonomy):
        raise InputError("by_class or groups differ; calibrate both with the same.")
    if one.limit != other.limit:
        raise InputError(f"limits of {one.limit} and {other.limit} scores; use one limit.")
    one.check_complete()
    other.check_complete()
    if not one.scored_by or one.scored_by != other.scored_by:
        raise InputError(
            "the two detectors are not known to be equal; calibrate copies of one fitted "
            "detector. An Ensemble, which learns from the rows that it is calibrated on, and "
            "scikit-learn's detectors must see all rows in one detector, by partial_calibrate."
        )
    if "" in one.sources and "" in other.sources and _have_equal_scores(one, other):
        raise InputError(
            "both hold the same scores, and a row that counts twice breaks every guarantee; "
            "merge calibrations on other rows, or name their data by source."
        )


def _have_equal_scores(one: Calibration, other: Calibration) -> bool:
    """Tell whether two calibrations hold the very same scores, several in some group."""
    if one.samples.keys() != other.samples.keys():
        return False
    for group, sample in one.samples.items():
        if not np.array_equal(sample.ordered, other.samples[group].ordered):
            return False
    return any(sample.kept > 1 for sample in one.samples.values())
