"""Which calibrations may be merged: those of equal detectors, made alike, on different rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from typica.errors import InputError
from typica.keys import STEP, Keys, scrambled

if TYPE_CHECKING:
    from typica.calibration._calibration import Calibration
    from typica.calibration._sample import ScoreSample

_TELLING = 8  # distinct scores that other rows will not have by chance, each at the same place


def check_mergeable(one: Calibration, other: Calibration) -> None:
    """Raise unless the scores of `other` may be taken into the calibration `one`."""
    if other is one:
        raise InputError("it cannot merge with itself; pass another Calibration.")
    if (one.by_class, one.taxonomy) != (other.by_class, other.taxonomy):
        raise InputError("by_class or groups differ; calibrate both with the same.")
    if one.limit != other.limit:
        raise InputError(f"limits of {one.limit} and {other.limit} scores; use one limit.")
    if not one.scored_by or one.scored_by != other.scored_by:
        raise InputError(
            "the two detectors are not known to be equal; calibrate copies of one fitted "
            "detector. An Ensemble, which learns from the rows that it is calibrated on, and "
            "scikit-learn's detectors must see all rows in one detector, by partial_calibrate."
        )
    if "" in one.sources and "" in other.sources:
        _check_other_rows(one, other)


def _check_other_rows(one: Calibration, other: Calibration) -> None:
    """Raise where the scores themselves tell that two calibrations saw the same rows."""
    if _have_equal_scores(one, other) or _holds_all_of(one, other) or _holds_all_of(other, one):
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


def _holds_all_of(one: Calibration, other: Calibration) -> bool:
    """Tell whether a calibration holds the scores of all rows of another, row by row.

    With few distinct scores this is unknown: other rows may have them too.
    """
    for group, sample in other.samples.items():
        known = one.samples.get(group)
        if known is None or not np.isin(_marks(sample, known), _marks(known, known)).all():
            return False
    scores = np.concatenate([sample.ordered for sample in other.samples.values()])
    return len(np.unique(scores)) >= _TELLING


def _marks(sample: ScoreSample, known: ScoreSample) -> Keys:
    """Return a hash of key and score for each row of a sample that `known` would keep as well."""
    keys, scores = sample.keys, sample.ordered
    if known.kept == known.limit:
        within = keys <= known.keys.max()
        keys, scores = keys[within], scores[within]
    return scrambled(keys + STEP * scores.view(np.uint64))
