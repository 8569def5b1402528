"""The bound by which an exact search passes over most rows, and the rows that it leaves.

A bound is one matrix product, tile after tile. A sample of the tiles tells what value about as many
rows reach as are wanted; all that reach it are candidates.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray, row_blocks

Floats = AnyArray

TILE = 2048  # rows of a product: with QUERIES of `_search` as fast as a larger one
# Rows, or the sixteenth part of all if that is more, from which a query's limit is taken.
SAMPLE = 4096
KEPT = 4  # tiles whose products are not done again after the limit was taken from them
PATIENCE = 16  # times as many candidates as asked for: then the bound is no use to the query


class Bound(NamedTuple):
    """An upper bound x·rows_j - half_j on s, up to a constant per query, for any width of rows.

    half: None where the product holds it already, or where it is the same for all rows. mean: what
    queries are measured from. same: what is then taken off all products. size: of the longest row,
    and of the largest half.
    """

    rows: Floats
    half: Floats | None
    mean: NDArray[np.float64]
    axes: NDArray[np.float64] | None
    same: float
    size: tuple[float, float]

    @classmethod
    def over(
        cls,
        rows: Floats,
        mean: NDArray[np.float64],
        *,
        half: Floats | None = None,
        axes: NDArray[np.float64] | None = None,
        same: float = 0.0,
    ) -> Bound:
        """Set a bound up from its rows (N, w)."""
        squares = [float(np.vecdot(rows[b], rows[b]).max()) for b in row_blocks(*rows.shape)]
        largest = same if half is None else float(half.max())
        return cls(rows, half, mean, axes, same, (max(squares) ** 0.5, largest))

    def queries(self, Q: Floats) -> tuple[Floats, NDArray[np.float64]]:
        """Return X (n, w) to multiply, and r (n,): |q - b_j|² >= r - 2 (x·rows_j - half_j)."""
        D = Q - self.mean
        squares = np.vecdot(D, D)
        if self.axes is None:  # then the rows are not moved to the mean
            return D.astype(Q.dtype), squares + 2 * D @ self.mean + 2 * self.same
        X = np.column_stack([project(D, self.axes), np.ones(len(D))])
        return X.astype(Q.dtype), squares

    def candidates(self, X: Floats, wanted: int) -> tuple[NDArray[np.int64], Floats, Floats]:
        """Return for each query about `wanted` rows, their values, (n, p), falling, and a limit.

        They are all rows that reach the limit (n,). Where a query has fewer than p, the values end
        in -inf. One that has more than PATIENCE times those wanted is given up.
        """
        tiles, ahead = _tiles(len(self.rows))
        memory = _Memory(len(X), len(self.rows[tiles[0]]), X.dtype)
        known = {tile.start: self._values(X, tile) for tile in ahead[:KEPT]}
        least = self._limit(X, wanted, ahead, known, memory)
        found = np.zeros(len(X), dtype=np.int64)
        parts = []
        for tile in tiles:
            S = known.pop(tile.start) if tile.start in known else self._values(X, tile, memory)
            limit = np.where(found > PATIENCE * wanted, np.inf, least)
            reached = np.less_equal(limit[:, None], S, out=memory.flags(S.shape[1]))
            places = np.flatnonzero(reached)
            query, column = np.divmod(places, S.shape[1])
            parts.append((query, tile.start + column * tile.step, S.ravel()[places]))
            found += np.bincount(query, minlength=len(X))
        query, row, value = (np.concatenate(part) for part in zip(*parts, strict=True))
        found[found > PATIENCE * wanted] = 0
        return *_side_by_side(query, row, value, found), least

    def _values(self, X: Floats, tile: slice, memory: _Memory | None = None) -> Floats:
        """Return the bound (n, t) on s of each query and each row of a tile."""
        rows = self.rows[tile]
        S = np.matmul(X, rows.T, out=None if memory is None else memory.values(len(rows)))
        if self.half is not None:
            S -= self.half[tile]
        return np.asarray(S)

    def _limit(
        self,
        X: Floats,
        wanted: int,
        ahead: list[slice],
        known: dict[int, Floats],
        memory: _Memory,
    ) -> Floats:
        """Return for each query what about `wanted` rows reach, judging by the tiles `ahead`.

        known: the values of some of these, by where they start.
        """
        n = len(self.rows)
        if wanted >= n:
            return np.full(len(X), -np.inf, dtype=X.dtype)
        size = sum(len(range(n)[tile]) for tile in ahead)
        rank = -(-wanted * size // n)
        tops = []
        for tile in ahead:
            S = known[tile.start] if tile.start in known else self._values(X, tile, memory)
            # The largest of groups of 8 hold nearly the same `rank` largest, and are fewer.
            tops.append(_largest_of_eight(S) if size >= 32 * rank else S.copy())
        return np.asarray(np.partition(np.concatenate(tops, axis=1), -rank, axis=1)[:, -rank])

    def margin(self, X: Floats) -> NDArray[np.float64]:
        """Return how far rounding may take a product less its half from the truth, per query."""
        longest, half = self.size
        lengths = np.sqrt(np.vecdot(X, X).astype(np.float64))
        return np.asarray((X.shape[1] + 8) * np.finfo(X.dtype).eps * (lengths * longest + half))


class _Memory:
    """Memory of a search, which one tile after the other uses again: new memory is slow."""

    def __init__(self, n: int, width: int, dtype: np.dtype[Any]) -> None:
        self._n = n
        self._values = np.empty(n * width, dtype)
        self._flags = np.empty(n * width, np.bool)

    def values(self, width: int) -> Floats:
        """Return room for a number of each query and each row of a tile, (n, width)."""
        return self._values[: self._n * width].reshape(self._n, width)

    def flags(self, width: int) -> NDArray[np.bool]:
        """Return room for a yes or no of each, (n, width)."""
        return self._flags[: self._n * width].reshape(self._n, width)


def _tiles(n: int) -> tuple[list[slice], list[slice]]:
    """Return slices that deal a search's n rows out to tiles, and some of them, to judge all by.

    A tile takes every p-th row, so that it is like all the others however the rows are sorted; p is
    prime, so that this holds even if they alternate.
    """
    step = _prime_from(-(-n // TILE))
    tiles = [slice(start, n, step) for start in range(step)]
    few = min(step, math.ceil(max(SAMPLE, n / 16) * step / n))
    return tiles, [tiles[i * step // few] for i in range(few)]


def _prime_from(n: int) -> int:
    """Return the first prime from n on, or 1: by that many tiles a search deals rows out.

    >>> [_prime_from(n) for n in (1, 2, 8, 49)]
    [1, 2, 11, 53]
    """
    while any(n % factor == 0 for factor in range(2, math.isqrt(n) + 1)):
        n += 1
    return n


def _largest_of_eight(S: Floats) -> Floats:
    """Return, for the bound of a search, the largest of groups of 8 columns of S (n, t)."""
    n, t = S.shape
    return np.asarray(S[:, : t // 8 * 8].reshape(n, 8, t // 8).max(axis=1))


def _side_by_side(
    query: NDArray[np.int64], row: NDArray[np.int64], value: Floats, found: NDArray[np.int64]
) -> tuple[NDArray[np.int64], Floats]:
    """Return the rows found for each query, and their values, (n, p), falling.

    query, row, value: of each find, in any order; found (n,): how many each query has, 0 for those
    that are given up.
    """
    # Those of the first query, those of the second, ...; 16 bits are sorted in no time.
    order = np.argsort(query.astype(np.uint16), kind="stable")
    order = order[found[query[order]] > 0]
    query, place = query[order], _counted(found)
    shape = (len(found), max(1, int(found.max())))
    rows, values = np.zeros(shape, dtype=np.int64), np.full(shape, -np.inf, dtype=value.dtype)
    rows[query, place] = row[order]
    values[query, place] = value[order]
    order = np.argsort(-values, axis=1)
    return np.take_along_axis(rows, order, axis=1), np.take_along_axis(values, order, axis=1)


def _counted(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return 0 ... count - 1 for each of a search's counts, one after the other.

    >>> _counted(np.array([2, 0, 3]))
    array([0, 1, 0, 1, 2])
    """
    starts = np.cumsum(counts) - counts
    return np.arange(counts.sum()) - np.repeat(starts, counts)


def project(D: NDArray[np.float64], axes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return, for a search's bound, coordinates of rows and at least the length of the rest."""
    along = D @ axes
    squares = np.vecdot(D, D)
    rounding = 16 * len(axes) * np.finfo(np.float64).eps * squares
    rest = np.sqrt(np.maximum(squares - np.vecdot(along, along), 0) + rounding)
    return np.concatenate([along, rest[:, None]], axis=1)


def some_rows(n: int) -> NDArray[np.int64]:
    """Return which of n rows stand for all where a search finds its axes."""
    size = min(n, max(SAMPLE, n // 16))
    return np.sort(np.random.default_rng(0).choice(n, size, replace=False))
