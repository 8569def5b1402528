"""Scores to compare with: all of them, or past a bound a uniform sample of them.

Every score has a key, a 64-bit hash of (source, row number). Past the bound the scores with the
smallest keys stay. As no key depends on a score, equal scores do not come and go together: what
stays is a uniform sample, and every guarantee holds with its size in place of the number seen.
Samples of named sources merge exactly: the smallest keys of both are the smallest keys of all.
"""

from __future__ import annotations

import threading
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray
from typica.calibration._p_values import p_values_among
from typica.calibration._scores import check_scores, in_dtype
from typica.calibration._threshold import threshold_at
from typica.keys import Keys
from typica.store import State, storable

LIMIT = 2**20  # scores that are kept of a group

_lock = threading.Lock()  # what waits is sorted in once, by whoever reads first


@storable("score_sample")
class ScoreSample:
    """The scores of one group, at most `limit` of them.

    n: how many were seen.

    >>> from typica.keys import row_keys
    >>> sample = ScoreSample().add([3.0, 1.0, 2.0], row_keys("demo", 0, 3))
    >>> sample.count(np.array([0.5, 2.0])), sample.threshold(2)
    (array([0, 2]), 2.0)
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit = limit
        self.n = 0
        self._scores: NDArray[np.float64] = np.empty(0)
        self._keys: Keys = np.empty(0, dtype=np.uint64)
        self._waiting: list[tuple[NDArray[np.float64], Keys]] = []
        self._rounded: AnyArray | None = None

    def add(self, scores: Any, keys: Keys) -> Self:
        """Take in a batch of scores with their keys."""
        batch = check_scores(scores).astype(np.float64)
        self._waiting.append((batch, keys))
        self.n += len(batch)
        # As many scores may wait as are kept, so that each is sorted only a few times.
        if sum(len(part) for part, _ in self._waiting) > max(len(self._scores), 2**12):
            self._settle()
        return self

    def merge(self, other: ScoreSample) -> Self:
        """Take in all the scores of `other`, which stays as it is."""
        self._waiting.append((other.ordered, other.keys))
        self.n += other.n
        self._settle()
        return self

    def limit_to(self, limit: int) -> None:
        """Keep at most `limit` scores from now on."""
        self.limit = limit
        self._waiting.append((np.empty(0), np.empty(0, dtype=np.uint64)))
        self._settle()

    @property
    def ordered(self) -> NDArray[np.float64]:
        """The scores that are kept, ascending."""
        self._settle()
        return self._scores

    @property
    def keys(self) -> Keys:
        """The keys of the scores that are kept, in the order of these."""
        self._settle()
        return self._keys

    @property
    def kept(self) -> int:
        """How many scores there are to compare with."""
        return len(self.ordered)

    def count(
        self, scores: AnyArray, side: Literal["left", "right"] = "right"
    ) -> NDArray[np.int64]:
        """Return for each s how many kept scores are at most s ("right") or below s ("left")."""
        return np.searchsorted(self._ordered_like(scores), scores, side=side)

    def threshold(self, k: int) -> float:
        """Return the k-th smallest score that is kept, and -inf for k = 0."""
        return threshold_at(k, self.ordered)

    def p_values(
        self, scores: AnyArray, rng: np.random.Generator | None = None
    ) -> NDArray[np.float64]:
        """Return (1 + #{<=}) / (k + 1) with k kept scores; see `p_values` for `rng`."""
        return p_values_among(self._ordered_like(scores), scores, rng)

    def _ordered_like(self, scores: AnyArray) -> AnyArray:
        """Return the kept scores in ascending order, in the precision of these."""
        ordered, rounded = self.ordered, self._rounded
        if rounded is None or rounded.dtype != scores.dtype:
            rounded = self._rounded = in_dtype(ordered, scores.dtype)
        return rounded

    def _settle(self) -> None:
        """Sort in what waits, and keep the smallest keys."""
        with _lock:
            if self._waiting:
                self._sort_in()

    def _sort_in(self) -> None:
        parts = [(self._scores, self._keys), *self._waiting]
        self._rounded = None
        scores = np.concatenate([part for part, _ in parts])
        keys = np.concatenate([part for _, part in parts])
        if len(scores) > self.limit:
            smallest = np.argsort(keys, kind="stable")[: self.limit]
            scores, keys = scores[smallest], keys[smallest]
        order = np.lexsort((keys, scores))  # one order, whatever the batches
        self._scores, self._keys = scores[order], keys[order]
        self._waiting = []

    def state(self) -> State:
        """Return what is to be stored."""
        self._settle()
        arrays = {"scores": self._scores, "keys": self._keys}
        return {"limit": self.limit, "n": self.n, **arrays}

    @classmethod
    def from_state(cls, state: State) -> ScoreSample:
        """Rebuild the sample from what was stored."""
        for name in ("limit", "n"):
            if not isinstance(state[name], int):
                raise TypeError(f"{name} of a sample is a {type(state[name]).__name__}")
        made = cls(state["limit"])
        made.n = state["n"]
        made._scores, made._keys = state["scores"], state["keys"]
        _check_stored(made)
        return made


def _check_stored(sample: ScoreSample) -> None:
    """Refuse a file's scores that no calibration could have kept."""
    scores, keys = sample._scores, sample._keys
    for name, array, dtype in (("scores", scores, np.float64), ("keys", keys, np.uint64)):
        if not isinstance(array, np.ndarray) or array.dtype != dtype or array.ndim != 1:
            raise TypeError(f"{name} of a sample are not a row of {np.dtype(dtype)}")
    if len(scores) != len(keys) or not (scores[1:] >= scores[:-1]).all():
        raise ValueError("scores of a sample are not in order, or not one for each key")
