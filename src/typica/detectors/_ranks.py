"""Where a score stands among observed in-distribution scores: its rank, and its p-value."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from typica.arrays import AnyArray, Array, like, namespace
from typica.errors import InputError

Floats = NDArray[np.float64]
QUANTILES = 2048  # order statistics that are kept of each member


class Ranks(NamedTuple):
    """The distribution function F of observed scores, continued beyond them.

    knots (u,): the distinct observed scores, rising; levels (u,): F there; gaps and rises (u,): how
    far the next knot is and by how much F rises to it, 1 and 0 for the last; unit: the w of the
    tails.
    """

    knots: Floats
    levels: Floats
    gaps: Floats
    rises: Floats
    unit: float

    @classmethod
    def of(cls, scores: Floats) -> Self:
        """Make F from finite scores (n,), sorted.

        >>> Ranks.of(np.array([1.0, 2.0, 2.0, 5.0])).levels.tolist()
        [0.125, 0.5, 0.875]
        """
        return cls.with_levels(scores, lambda below, equal, n: (below + equal / 2) / n)

    @classmethod
    def with_levels(cls, scores: Floats, level: Callable[[Floats, Floats, int], Floats]) -> Self:
        """Make what is `level` at the knots: of how many are below, equal, and in all."""
        knots, counts = np.unique(scores, return_counts=True)
        equal = counts.astype(np.float64)
        levels = level(np.cumsum(equal) - equal, equal, len(scores))
        return cls(
            knots,
            levels,
            np.append(np.diff(knots), 1.0),
            np.append(np.diff(levels), 0.0),
            _unit(scores),
        )

    def __call__(self, scores: Array) -> Array:
        """Return F of scores (n,) of any backend, in float64."""
        inside, below, above = self.placed(scores)
        left = 1.0 - float(self.levels[-1])
        xp = namespace(inside)
        return inside - 0.45 * xp.log1p(below) + left * (1 - 1 / (1 + above))

    def placed(self, scores: Array) -> tuple[Array, Array, Array]:
        """Return the level of scores (n,), and how far they lie below and above all knots.

        Distances are in the unit of the tails.
        """
        xp = namespace(scores)
        scores = xp.astype(scores, xp.float64)
        knots, levels, gaps, rises = (like(a, scores) for a in self[:4])
        lowest, highest, zero = knots[:1], knots[-1:], xp.zeros_like(scores)
        inside = xp.minimum(xp.maximum(scores, lowest), highest)
        at = xp.searchsorted(knots, inside, side="right") - 1
        along = (inside - xp.take(knots, at)) / xp.take(gaps, at)
        with np.errstate(over="ignore"):  # infinitely far is far enough
            below = xp.maximum(lowest - scores, zero) / self.unit
            above = xp.maximum(scores - highest, zero) / self.unit
        level = xp.take(levels, at) + xp.take(rises, at) * along
        # Rounding must not carry a score beyond the one above it.
        following = like(np.append(self.levels[1:], self.levels[-1:]), scores)
        return xp.minimum(level, xp.take(following, at)), below, above


class LogP(NamedTuple):
    """The log of the p-value of a score, by observed ones.

    p = (1 + number of observed scores at or below it) / (n + 1) at the observed scores, with the
    logs linear in between and so never too small. Below all of them ln p falls by log(1 + (lowest -
    s) / w): p-values end at 1 / (n + 1), whose log is `least`; these go on below it, so that far
    inputs still have an order.
    """

    ranks: Ranks
    least: float

    @classmethod
    def of(cls, scores: Floats) -> Self:
        """Make it from finite scores (n,), sorted.

        >>> np.exp(LogP.of(np.array([1.0, 2.0, 3.0]))(np.array([0.0, 1.0, 3.0, 9.0]))).round(2)
        array([0.24, 0.5 , 1.  , 1.  ])
        """
        ranks = Ranks.with_levels(scores, lambda low, equal, n: np.log(_p(low, equal, n)))
        return cls(ranks, -math.log(len(scores) + 1))

    def __call__(self, scores: Array, ending: bool = False) -> Array:
        """Return ln p of scores (n,); with `ending`, of p-values that end."""
        inside, below, _ = self.ranks.placed(scores)
        xp = namespace(inside)
        logs = inside - xp.log1p(below)
        return xp.maximum(logs, xp.full_like(logs, self.least)) if ending else logs


class Deviates(NamedTuple):
    """The normal deviate of the p-value of a score, by observed ones.

    As in `LogP`, with p at most 1 - 1 / (2 (n + 1)), and -sqrt(v² + 2 log(1 + (lowest - s) / w))
    below all observed scores, v being the deviate of the lowest.
    """

    ranks: Ranks
    least: float

    @classmethod
    def of(cls, scores: Floats) -> Self:
        """Make it from finite scores (n,), sorted."""

        def level(low: Floats, equal: Floats, n: int) -> Floats:
            return np.asarray(ndtri(np.minimum(_p(low, equal, n), 1 - 0.5 / (n + 1))))

        return cls(Ranks.with_levels(scores, level), float(ndtri(1 / (len(scores) + 1))))

    def __call__(self, scores: Array, ending: bool = False) -> Array:
        """Return the deviates of scores (n,); with `ending`, those of p-values that end."""
        inside, below, _ = self.ranks.placed(scores)
        xp = namespace(inside)
        lowest = max(abs(float(self.ranks.levels[0])), 1e-6)  # the root of 0 has no gradient
        deviates = inside + lowest - xp.sqrt(lowest**2 + 2 * xp.log1p(below))
        return xp.maximum(deviates, xp.full_like(deviates, self.least)) if ending else deviates


def observed(scores: AnyArray, name: str) -> Floats:
    """Return a member's finite in-distribution scores, sorted, evenly thinned to `QUANTILES`."""
    finite = np.sort(scores[np.isfinite(scores)].astype(np.float64))
    if len(finite) == 0:
        raise InputError(
            f"member {name} gives no finite score; rescale the features, or leave it out."
        )
    if len(finite) <= QUANTILES:
        return finite
    return np.asarray(finite[np.linspace(0, len(finite) - 1, QUANTILES).round().astype(int)])


def _p(below: Floats, equal: Floats, n: int) -> Floats:
    return (1 + below + equal) / (n + 1)


def _unit(scores: Floats) -> float:
    """Return the distance from the 5 % quantile to the median, or something else above 0."""
    low, middle = np.quantile(scores, [0.05, 0.5])
    spread = float(scores[-1] - scores[0])
    return float(middle - low) or spread or abs(float(scores[0])) or 1.0
