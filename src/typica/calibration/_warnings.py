"""What is said of calibrations that cannot do what was asked for, or not for every class."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from typica.arrays import AnyArray
from typica.calibration._groups import SMALLEST_GROUP
from typica.calibration._levels import Levels
from typica.calibration._threshold import calibration_size, ties_at
from typica.errors import CalibrationWarning, InputError, argument, by_caller, listed, warn

_NAMED = 5  # classes or groups that a warning names


def warn_of_pool(rare: Mapping[Any, str], counts: AnyArray, n: int) -> None:
    """Say which classes share one threshold, and how many rows would give each its own."""
    alone = f"leave out {argument('by_class')}"
    otherwise = by_caller("say with groups= which classes to join", alone)
    needed = int(np.ceil(SMALLEST_GROUP * counts.sum() / counts.min()))
    warn(
        f"{len(rare)} of {len(counts)} classes ({listed(rare, _NAMED)}) share one "
        "threshold, and alpha holds for them together: each can expect fewer than "
        f"{SMALLEST_GROUP} of the {n} rows; pass {needed} rows, or {otherwise}.",
        CalibrationWarning,
    )


def warn_of_unknown(groups: Collection[str], calibrated: Collection[str]) -> None:
    """Warn where none of the groups that rows are in has calibration scores."""
    if not groups or any(group in calibrated for group in groups):
        return
    warn(
        f"no row is in a calibrated group ({listed(calibrated, _NAMED)}), but in "
        f"{listed(groups, _NAMED)}, so none is rejected; pass predicted= with the classes that "
        "`calibrate` was given.",
        CalibrationWarning,
    )


def say_too_few(levels: Levels, kept: int, group: str | None, of_half: bool) -> None:
    """Say that a calibration, or a group of it, has too few scores to reject anything.

    Parameters
    ----------
    levels
        What was asked for; with a confidence this is an error, without it a warning.
    kept
        How many scores there are.
    group
        The group that has so few; None where all rows are one.
    of_half
        Whether only half of the held-out rows gave scores.
    """
    need = calibration_size(levels.alpha, levels.confidence)
    found = f"{kept} calibration inputs"
    if group is not None:
        found += f" of group {group!r}"
    if of_half:
        need *= 2
        found += " (the other half is for the ranks of the members)"
    remedy = f"pass at least {need}, or a larger alpha."
    if group is not None:
        remedy = f"pass at least {need} per group (pool rare classes), or a larger alpha."
    if levels.confidence is not None:
        raise InputError(f"{found} are too few for {levels}; {remedy}")
    warn(f"{found} are too few to reject anything at {levels}; {remedy}", CalibrationWarning)


def say_endless(ordered: AnyArray, k: int, group: str | None = None) -> None:
    """Warn of scores of -inf, which rank lowest; raise if the k-th score, the threshold, is one.

    ordered: the scores of a calibration or a group of it, ascending. group: its name, if any.
    """
    endless = int(np.searchsorted(ordered, -np.inf, side="right"))
    if not endless:
        return
    found = f"{endless} of {len(ordered)} calibration scores"
    if group is not None:
        found += f" of group {group!r}"
    remedy = "look at these rows, or rescale the features"
    if 1 <= k <= endless:
        raise InputError(f"{found} are -inf, and a threshold of -inf accepts all rows; {remedy}.")
    warn(f"{found} are -inf and rank lowest; {remedy}.", CalibrationWarning)


def about_ties(
    levels: Levels, rank: int, ordered: AnyArray, groups: Collection[str] = ()
) -> str | None:
    """Return what to say of a threshold that keeps more than was asked for, because scores tie.

    Parameters
    ----------
    levels
        What was asked for.
    rank, ordered
        The rank of the threshold among the ascending calibration scores.
    groups
        All groups of which this is so, the one with these scores first; none if all rows are one.
    """
    ties = ties_at(rank, ordered)
    if not ties:
        return None
    n = len(ordered)
    below = int(ordered.searchsorted(ordered[rank - 1]))
    whose = f" of group {listed(groups, _NAMED, quoted=True)}" if groups else ""
    return (
        f"{100 * ties / n:.3g} % of the {n} calibration scores{whose} equal the threshold "
        f"{ordered[rank - 1]:.4g}, so it rejects {100 * below / n:.3g} % of them and not "
        f"{100 * float(levels.alpha):g} %; take a method or parameters whose scores differ."
    )


def warn_of_fitted_rows(share: float) -> None:
    """Warn if this share of the rows of a calibration were fitted on."""
    warn(
        f"about {100 * share:.0f} % of these rows were fitted on, and such rows score higher than "
        "new ones, of which more than alpha will be rejected; pass rows that the fit has not seen.",
        CalibrationWarning,
    )
