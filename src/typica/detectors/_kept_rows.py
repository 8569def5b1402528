"""A sample of training rows that merges exactly: those with the smallest keys.

The key of a row is a 64-bit hash of its numbers and its label. Which rows have the smallest keys
depends on neither their order nor how they were split, so that samples of parts merge into the
sample of the whole. Equal rows have equal keys: they are kept once, with a count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from typica.arrays import Labels, Rows, as_floating
from typica.keys import Keys, row_sums, scrambled, text_keys
from typica.labels import encode_labels
from typica.moments import Moments
from typica.store import State, storable


@storable("kept_rows")
@dataclass(frozen=True, eq=False)
class KeptRows:
    """Distinct training rows (k, m), their labels, how often each occurred; by rising keys."""

    rows: Rows
    labels: Labels
    counts: NDArray[np.int64]
    keys: Keys

    @classmethod
    def of(cls, Z: Rows, labels: Labels | None, limit: int) -> Self:
        """Return the rows of Z (n, m) with the `limit` smallest keys.

        >>> kept = KeptRows.of(np.array([[1.0], [2.0], [1.0]]), None, limit=5)
        >>> sorted(zip(kept.rows.ravel().tolist(), kept.counts.tolist()))
        [(1.0, 2), (2.0, 1)]
        """
        classes, codes = encode_labels(labels, len(Z))
        keys = scrambled(row_sums(Z) ^ _class_keys(classes)[codes])
        keys, first, counts = _least_keys(keys, limit)
        # An array of its own, as `take` makes it, so that a batch can be forgotten.
        rows = np.ascontiguousarray(as_floating(Z.take(first, axis=0)))
        return cls(rows, classes[codes[first]], counts, keys)

    def merge(self, other: Self, limit: int) -> Self:
        """Return the rows of both with the `limit` smallest keys; counts of equal rows add up."""
        together = np.concatenate([self.keys, other.keys])
        keys, first, place = np.unique(together, return_index=True, return_inverse=True)
        counts = np.zeros(len(keys), np.int64)
        np.add.at(counts, place, np.concatenate([self.counts, other.counts]))
        first = first[:limit]
        return type(self)(
            np.concatenate([self.rows, other.rows])[first],
            np.concatenate([self.labels, other.labels])[first],
            counts[:limit],
            keys[:limit],
        )

    def part(self, chosen: NDArray[np.bool]) -> Self:
        """Return the rows for which `chosen` (k,) is true."""
        return type(self)(
            self.rows[chosen], self.labels[chosen], self.counts[chosen], self.keys[chosen]
        )

    def folds(self, n_folds: int) -> NDArray[np.int64]:
        """Return a fold (k,) for each row: its rank by key within its class, modulo `n_folds`."""
        _, codes = encode_labels(self.labels, len(self.labels))
        sizes = np.bincount(codes)
        first = np.repeat(np.cumsum(sizes) - sizes, sizes)
        ranks = np.empty(len(codes), np.int64)
        ranks[np.argsort(codes, kind="stable")] = np.arange(len(codes)) - first
        return ranks % n_folds

    def moments(self) -> Moments:
        """Return the moments, with scatter, of the rows, each as often as it occurred."""
        total = Moments(scatter=True)
        for count in np.unique(self.counts):
            alike = self.counts == count
            once = Moments(scatter=True).add(self.rows[alike], self.labels[alike])
            total = total.merge(once.repeated(int(count)))
        return total

    def state(self) -> State:
        """Return the arrays to be stored; the keys follow from them."""
        return {"rows": self.rows, "labels": self.labels, "counts": self.counts}

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild the sample from its stored arrays."""
        rows, labels, counts = state["rows"], state["labels"], state["counts"]
        classes, codes = encode_labels(labels, len(rows))
        keys = scrambled(row_sums(rows) ^ _class_keys(classes)[codes])
        return cls(rows, labels, counts, keys)


def quantile_of_kept(values: NDArray[np.float64], counts: NDArray[np.int64], q: float) -> float:
    """Return the q-quantile of a value of Quorum's kept rows, which occurred `counts` times.

    It is linear between neighbours.

    >>> quantile_of_kept(np.array([3.0, 1.0]), np.array([1, 3]), 0.75)  # of 1, 1, 1, 3
    1.5
    """
    order = np.argsort(values, kind="stable")
    ends = np.cumsum(counts[order])
    position = q * (int(ends[-1]) - 1)
    below, above = np.floor(position), np.ceil(position)
    low, high = values[order][np.searchsorted(ends, [below, above], side="right")]
    return float(low + (high - low) * (position - below))


def _least_keys(keys: Keys, limit: int) -> tuple[Keys, NDArray[np.int64], NDArray[np.int64]]:
    """Return the `limit` smallest keys of rows to keep, where each is first, and how often it is.

    >>> _least_keys(np.array([7, 5, 9, 5], dtype=np.uint64), limit=2)
    (array([5, 7], dtype=uint64), array([1, 0]), array([2, 1]))
    """
    places = np.arange(len(keys))
    if len(keys) > 2 * limit:  # then a few are sorted, and not all
        places = np.flatnonzero(keys <= np.partition(keys, 2 * limit)[2 * limit])
    least, first, counts = np.unique(keys[places], return_index=True, return_counts=True)
    if len(least) < limit and len(places) < len(keys):  # many rows are equal
        least, first, counts = np.unique(keys, return_index=True, return_counts=True)
        return least[:limit], first[:limit], counts[:limit]
    return least[:limit], places[first[:limit]], counts[:limit]


def _class_keys(classes: Labels) -> Keys:
    """Return keys of classes, by which it is drawn which of Quorum's rows are kept."""
    return text_keys(str(name) for name in classes)
