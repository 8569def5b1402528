"""A uniform sample of training rows: those with the smallest keys, however rows are split."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray
from typica.scale._batches import Batch
from typica.scale._columns import wrong_table_width

Keys = NDArray[np.uint64]

_ANY = np.uint64(2**64 - 1)  # no key is larger
_SPARE = 10.0  # standard deviations: how many more keys are looked at than are wanted


class SampledRows(NamedTuple):
    """Rows (k, m) of a sample with their keys, and with their labels if they have any."""

    keys: Keys
    rows: AnyArray
    labels: AnyArray | None

    def at(self, places: NDArray[np.int64]) -> SampledRows:
        """Return the sampled rows in some places, with their keys and labels."""
        labels = None if self.labels is None else self.labels[places]
        return SampledRows(self.keys[places], self.rows[places], labels)


class RowSample:
    """At most `limit` rows, with their labels if they have any, by ascending keys.

    Samples of parts merge into the sample of the whole. salt: part of every key, for another sample
    of the same rows. total: how many rows the whole has; if it is known, a part keeps its share of
    the sample, and little more.
    """

    def __init__(self, limit: int, salt: str = "", total: int | None = None) -> None:
        self.limit = limit
        self.salt = salt
        self.total = total
        self._kept: list[SampledRows] = []  # no more than twice the limit, all together
        self._bound = _largest_key(limit, total)  # keys beyond it are known to be too large

    def add(self, batch: Batch) -> Self:
        """Take in the rows of a batch whose keys are small enough."""
        keys = batch.keys(self.salt)
        chosen = np.flatnonzero(keys <= self._bound)
        if len(chosen) > self.limit:
            chosen = chosen[np.argpartition(keys[chosen], self.limit)[: self.limit]]
        if len(chosen):
            self._take_in(SampledRows(keys, batch.features, batch.labels).at(chosen))
        return self

    def merge(self, other: Self) -> Self:
        """Take in the rows of another sample, which stays as it is."""
        for kept in other._kept:
            self._take_in(kept)
        return self

    def first(self, count: int) -> AnyArray | None:
        """Return the rows with the `count` smallest keys, None if there are no rows."""
        return None if self.rows is None else self.rows[:count]

    @property
    def rows(self) -> AnyArray | None:
        """The rows (k, m), None if there are none."""
        self._settle()
        return self._kept[0].rows if self._kept else None

    @property
    def labels(self) -> AnyArray | None:
        """The labels (k,) of the rows, None if they have none."""
        self._settle()
        return self._kept[0].labels if self._kept else None

    def _take_in(self, more: SampledRows) -> None:
        if self._kept and self._kept[0].rows.shape[1] != more.rows.shape[1]:
            raise wrong_table_width(more.rows.shape[1], self._kept[0].rows.shape[1])
        self._kept.append(more)
        # Seldom, so that each row is moved a few times at most.
        if sum(len(kept.keys) for kept in self._kept) >= 2 * self.limit:
            self._settle()

    def _settle(self) -> None:
        """Join what was taken in, and keep the smallest keys."""
        if not self._kept:
            return
        if len(self._kept) > 1:
            self._kept = [_together(self._kept)]
        order = np.argsort(self._kept[0].keys, kind="stable")[: self.limit]
        self._kept = [self._kept[0].at(order)]
        if len(order) == self.limit:
            self._bound = self._kept[0].keys[-1]

    def state(self) -> dict[str, Any]:
        """Return what is sent to others."""
        self._settle()
        kept = self._kept[0]._asdict() if self._kept else None
        return {"limit": self.limit, "salt": self.salt, "total": self.total, "kept": kept}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Rebuild the sample from what was sent."""
        made = cls(state["limit"], state["salt"], state["total"])
        if state["kept"] is not None:
            made._kept = [SampledRows(**state["kept"])]
            made._settle()
        return made


def _largest_key(limit: int, total: int | None) -> np.uint64:
    """Return a key that the `limit` smallest of `total` keys do not exceed.

    Keys are uniform: the probability that fewer lie below it is less than 1e-20.

    >>> float(_largest_key(100, total=1200)) / 2**64
    0.25
    """
    looked_at = limit + _SPARE * (math.sqrt(limit) + _SPARE)
    if total is None or looked_at >= total:
        return _ANY
    return np.uint64(looked_at / total * 2.0**64)


def _together(kept: list[SampledRows]) -> SampledRows:
    keys = np.concatenate([some.keys for some in kept])
    rows = np.concatenate([some.rows for some in kept])
    labels = [some.labels for some in kept if some.labels is not None]
    return SampledRows(keys, rows, np.concatenate(labels) if len(labels) == len(kept) else None)
