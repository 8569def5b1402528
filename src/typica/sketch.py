"""A set of scores that grows, and answers: how many of them are at most s?

Two step functions bracket that count, lower(s) <= #{scores <= s} <= upper(s). While all scores are
kept they are equal. With `max_scores` neighbouring steps are joined as soon as there are too many:
the joined step keeps the lower value of its first part and the upper value of its last. Adding and
merging sets adds their step functions, so that the bracket holds whatever the order of scores,
batches and merges. The widest gap between the two is known at any time (`error`); nothing is
random.

In the manner of Greenwald and Khanna, Space-Efficient Online Computation of Quantile Summaries,
SIGMOD 2001.
"""

from __future__ import annotations

import math
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from typica.arrays import to_numpy
from typica.errors import InputError, border
from typica.store import storable

SMALLEST_SKETCH = 16


def check_scores(scores: Any) -> NDArray[Any]:
    """Return scores as a 1-D array of float32 or float64; infinity is a legal score, NaN is not.

    >>> check_scores([1, 2], "example")
    array([1., 2.])
    """
    array = np.atleast_1d(to_numpy(scores))
    if array.ndim != 1 or array.dtype.kind not in "fiub":
        raise InputError(
            f"scores of shape {array.shape} and type {array.dtype}; pass a 1-D array of real numbers."
        )
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    if len(array) and np.isnan(array.min()):  # min passes NaN on
        raise InputError(
            f"score {np.argmax(np.isnan(array))} is NaN; repair the input or the detector."
        )
    return array


@storable("score_set")
class ScoreSet:
    """Scores to count in: all of them, or a sketch of at most `max_scores` numbers.

    >>> exact = ScoreSet().add([3.0, 1.0, 2.0, 2.0])
    >>> exact.count(np.array([0.0, 2.0, 9.0]))
    array([0, 3, 4])
    >>> sketch = ScoreSet(max_scores=100).add(np.random.default_rng(0).permutation(np.arange(10_000.0)))
    >>> excess = int(sketch.count(np.array([5000.0]))[0]) - 5001
    >>> 0 <= excess <= sketch.error, sketch.error <= 4 * sketch.n / 100
    (True, True)
    """

    @border
    def __init__(self, max_scores: int | None = None) -> None:
        if max_scores is not None and (
            not isinstance(max_scores, int) or max_scores < SMALLEST_SKETCH
        ):
            raise InputError(
                f"max_scores={max_scores!r}; pass an integer of {SMALLEST_SKETCH} or more, or None."
            )
        self.max_scores = max_scores
        self.n = 0
        self._values: NDArray[np.float64] = np.empty(0)
        # Counts at and after each value; None while value i is the i-th smallest score, with
        # nothing joined.
        self._steps: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
        self._pending: list[NDArray[np.float64]] = []
        self._waiting = 0
        self._rounded: NDArray[Any] | None = None

    @border
    def add(self, scores: Any) -> Self:
        """Take in one score or a batch of them."""
        batch = check_scores(scores).astype(np.float64)
        room = len(batch) or 1 if self.max_scores is None else self.max_scores // 2
        for start in range(0, len(batch), room):
            piece = batch[start : start + room]
            self._pending.append(piece)
            self._waiting += len(piece)
            self.n += len(piece)
            if self.max_scores is not None and self._waiting >= room:
                self._settle()
        return self

    def merge(self, other: ScoreSet) -> Self:
        """Take in all the scores of `other`, which stays as it is."""
        other._settle()
        self._settle()
        self._join(other._values, other._steps)
        self.n += other.n
        self._shrink()
        return self

    @property
    def error(self) -> int:
        """The most that `count` may exceed the true count by; 0 while nothing has been joined."""
        self._settle()
        return 0 if self._steps is None else int((self._steps[1] - self._steps[0]).max())

    @property
    def exact(self) -> bool:
        """Whether all scores are still there."""
        self._settle()
        return self._steps is None

    @property
    def ordered(self) -> NDArray[np.float64]:
        """All scores in ascending order; of a sketch, the values that it has kept."""
        self._settle()
        return self._values

    def count(
        self, scores: NDArray[Any], side: Literal["left", "right"] = "right"
    ) -> NDArray[np.int64]:
        """Return for each s how many scores are at most s ("right") or below s ("left"): an upper bound.

        The set is compared with float32 scores in float32: rounding keeps the order, and the scores
        were made in that precision.
        """
        self._settle()
        if self._rounded is None or self._rounded.dtype != scores.dtype:
            with np.errstate(over="ignore"):
                self._rounded = self._values.astype(scores.dtype, copy=False)
        places = np.searchsorted(self._rounded, scores, side=side)
        return places if self._steps is None else np.append(0, self._steps[1])[places]

    def threshold(self, k: int) -> float:
        """Return the k-th smallest score, or the bound for it that keeps count(s) < k for every s below it.

        >>> ScoreSet().add([3.0, 1.0, 2.0]).threshold(2)
        2.0
        """
        self._settle()
        if k <= 0:
            return -math.inf
        place = (
            k - 1 if self._steps is None else int(np.searchsorted(self._steps[1], k, side="left"))
        )
        return float(self._values[place])

    def _settle(self) -> None:
        """Merge in what waits."""
        if self._waiting:
            waiting = np.concatenate(self._pending)
            self._pending, self._waiting = [], 0
            self._join(np.sort(waiting), None)
            self._shrink()

    def _join(
        self, values: NDArray[np.float64], steps: tuple[NDArray[np.int64], NDArray[np.int64]] | None
    ) -> None:
        """Add the step functions of two sets."""
        ours, our_steps = self._values, self._steps
        self._rounded = None
        # A stable sort finds the two ascending runs and merges them in linear time.
        self._values = np.sort(np.concatenate([ours, values]), kind="stable")
        if our_steps is not None or steps is not None:
            both = ((ours, our_steps), (values, steps))
            lower, upper = (
                sum(_at(self._values, *part, which) for part in both) for which in (0, 1)
            )
            self._steps = (np.asarray(lower), np.asarray(upper))

    def _shrink(self) -> None:
        """Join steps, by the smallest gap that does it, so that half of the room is free again."""
        if self.max_scores is None or len(self._values) <= self.max_scores:
            return
        lower, upper = self._steps or (_at(self._values, self._values, None, 0),) * 2
        fits = self.max_scores // 2
        least = int((upper - lower).max())
        # From `least` on each further n / (fits - 1) of gap makes at most fits - 1 steps, so that
        # this ends.
        gap, step = least, 1
        while len(starts := _joined(lower, upper, gap)) > fits:
            least, gap, step = gap, gap + step, 2 * step
        best = starts
        while gap - least > 1:
            middle = (gap + least) // 2
            if len(starts := _joined(lower, upper, middle)) > fits:
                least = middle
            else:
                gap, best = middle, starts
        ends = np.append(best[1:], len(upper)) - 1
        self._values, self._steps = self._values[best], (lower[best], upper[ends])

    def state(self) -> dict[str, Any]:
        """Return what is to be stored."""
        self._settle()
        lower, upper = self._steps if self._steps is not None else (None, None)
        return {
            "max_scores": self.max_scores,
            "n": self.n,
            "values": self._values,
            "lower": lower,
            "upper": upper,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> ScoreSet:
        """Rebuild the set from what was stored."""
        made = cls(state["max_scores"])
        made.n, made._values = state["n"], state["values"]
        made._steps = None if state["lower"] is None else (state["lower"], state["upper"])
        return made


def _at(
    points: NDArray[np.float64],
    values: NDArray[np.float64],
    steps: tuple[NDArray[np.int64], NDArray[np.int64]] | None,
    which: int,
) -> NDArray[np.int64]:
    """Return the lower (0) or upper (1) step function of a set at `points`."""
    places = np.searchsorted(values, points, side="right")
    return places if steps is None else np.append(0, steps[which])[places]


def _joined(lower: NDArray[np.int64], upper: NDArray[np.int64], gap: int) -> NDArray[np.int64]:
    """Return where steps begin if each is made as long as its gap allows."""
    following = np.searchsorted(upper, lower + gap, side="right").tolist()
    starts, place = [], 0
    while place < len(following):
        starts.append(place)
        place = following[place]
    return np.array(starts)
