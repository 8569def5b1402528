"""Exact search for the k-th nearest of many rows.

A matrix product bounds all distances from below; the rows that the bound leaves in question are
measured directly, from differences, so that nothing is lost to cancellation and equal rows are at
distance 0. With x = q - mean and y = b - mean for a query q and a row b

    |q - b|² = |x|² - 2 s,   s = x·y - |y|²/2 <= Px·Py + |x - Px| |y - Py| - |y|²/2

where P projects onto the leading principal axes of the rows. The features of a network lie near few
axes, so that a product of a fifth of the width settles nearly all pairs. What it leaves open is
settled by the product of full width, and what rounding leaves open there (more than a few rows at
all but the same distance) by measuring all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray, Array, namespace, row_blocks
from typica.linalg import places_of_largest
from typica.threads import blas_threads, in_threads, one_blas_thread

Floats = AnyArray

# Queries that one thread works on at once, at most, against TILE rows: as large as a product must
# be to run at the speed of a larger one.
QUERIES = 1024
TILE = 2048
# Rows, or the sixteenth part of all if that is more, from which a query's limit is taken.
SAMPLE = 4096
KEPT = 4  # tiles whose products are not done again after the limit was taken from them
FEW = 64  # queries that are not worth the principal axes
SPARE = 0.003  # the share of the rows' variance that may lie off the axes
APART = 0.1  # of the rows' squared length: with less of it about their mean, they lie close to it
PAIRS = 512  # of a query and a row, measured at once
PATIENCE = 16  # times as many candidates as asked for: then the bound is no use to the query


class Distinct(NamedTuple):
    """Rows without repetition (D, m), where each was first given, and how often it was, (D,)."""

    rows: Floats
    first: NDArray[np.int64]
    counts: NDArray[np.int64]


class Search:
    """Finds the k-th nearest among rows (N, m), which must be C-contiguous.

    >>> Search(np.array([[0.0], [1.0], [3.0]])).kth(np.array([[0.9]]), k=2)
    array([0])
    """

    def __init__(self, rows: Floats) -> None:
        self._given = rows

    @cached_property
    def _distinct(self) -> Distinct:
        """Of equal rows one: however many, they are no burden to the search."""
        rows = self._given
        whole = rows.view(f"V{rows.itemsize * rows.shape[1]}").ravel()
        _, first, counts = np.unique(whole, return_index=True, return_counts=True)
        if len(first) == len(rows):
            return Distinct(rows, np.arange(len(rows)), counts)
        return Distinct(rows[first], first, counts)

    @property
    def _rows(self) -> Floats:
        return self._distinct.rows

    @property
    def _counts(self) -> NDArray[np.int64]:
        return self._distinct.counts

    def kth(self, Q: Floats, k: int) -> NDArray[np.int64]:
        """Return which row is the k-th nearest to each of the queries Q (n, m), of their dtype."""
        bounds = [self._narrow, self._full] if len(Q) >= FEW else [self._full]
        usable = [bound for bound in bounds if bound is not None]
        threads = blas_threads()
        blocks = _shares(Q, threads)
        if len(blocks) == 1 or threads == 1:
            found = [self._settle(block, k, usable) for block in blocks]
        else:
            with one_blas_thread():  # beside each of our own, which has its own queries
                settle = partial(self._settle, k=k, bounds=usable)
                found = list(in_threads(settle, blocks, threads))
        return self._distinct.first[np.concatenate(found)]

    def _settle(self, Q: Floats, k: int, bounds: list[Bound]) -> NDArray[np.int64]:
        index = np.full(len(Q), -1)
        enough = max(3 * k, 128)
        # A sample of the rows sets how many are looked at; by chance they may be too few.
        attempts = [*((bound, enough) for bound in bounds), (bounds[-1], 8 * enough)]
        for bound, wanted in attempts:
            open_ = np.flatnonzero(index < 0)
            if len(open_):
                index[open_] = self._attempt(Q[open_], k, bound, wanted)
        for i in np.flatnonzero(index < 0):
            parts = [_squares(self._rows[b], Q[i]) for b in row_blocks(*self._rows.shape)]
            index[i] = _weighted_kth(np.concatenate(parts), self._counts, k)
        return index

    def _attempt(self, Q: Floats, k: int, bound: Bound, wanted: int) -> NDArray[np.int64]:
        """Return for each query the k-th nearest row, or -1 where the bound leaves it open.

        wanted: about so many candidates are looked at.
        """
        X, reach = bound.queries(Q)
        candidates, values, least = bound.candidates(X, wanted)
        # What the squared distances are at least: of the candidates, nearest first, and of all
        # other rows.
        margin = 2 * bound.margin(X)
        reach -= margin
        nearer, others = reach[:, None] - 2 * values, reach - 2 * least

        counts = np.where(values > -np.inf, self._counts[candidates], 0)
        first = np.sum(np.cumsum(counts, axis=1) < k, axis=1) + 1  # so many candidates hold k rows
        squares = np.full(values.shape, np.inf, dtype=Q.dtype)
        slack = 1 + (Q.shape[1] + 4) * np.finfo(Q.dtype).eps
        before = np.zeros_like(first)
        if bound.axes is None:
            # A candidate that is nearer than the last of those by more than rounding is not the
            # k-th, and need not be measured.
            last = np.minimum(first, values.shape[1])[:, None] - 1
            at_most = slack**2 * (nearer + 2 * margin[:, None])
            before = np.sum(at_most < np.take_along_axis(nearer, last, axis=1), axis=1)
            squares[np.arange(values.shape[1]) < before[:, None]] = -1
        self._measure(Q, candidates, squares, before, first)
        limit = slack * np.max(squares, axis=1, where=squares < np.inf, initial=0)
        # Beyond these a candidate is too far to be the k-th.
        last = np.sum(nearer <= limit[:, None], axis=1)
        self._measure(Q, candidates, squares, first, last)

        order = np.argsort(squares, axis=1)
        held = np.cumsum(np.take_along_axis(counts, order, axis=1), axis=1)
        kth = np.take_along_axis(order, np.argmax(held >= k, axis=1)[:, None], axis=1)
        farthest = np.take_along_axis(squares, kth, axis=1)[:, 0]
        certain = (held[:, -1] >= k) & (slack * farthest <= others)
        return np.where(certain, np.take_along_axis(candidates, kth, axis=1)[:, 0], -1)

    def _measure(
        self,
        Q: Floats,
        candidates: NDArray[np.int64],
        squares: Floats,
        start: AnyArray,
        stop: AnyArray,
    ) -> None:
        """Set `squares` to the squared distances of each query's candidates start ... stop - 1."""
        places = np.arange(candidates.shape[1])
        queries, at = np.nonzero((start[:, None] <= places) & (places < stop[:, None]))
        for i in range(0, len(at), PAIRS):
            q, c = queries[i : i + PAIRS], at[i : i + PAIRS]
            D = self._rows.take(candidates[q, c], axis=0)
            D -= Q.take(q, axis=0)
            squares[q, c] = np.vecdot(D, D)

    @cached_property
    def _mean(self) -> NDArray[np.float64]:
        return np.asarray(self._rows.mean(axis=0, dtype=np.float64))

    @cached_property
    def _full(self) -> Bound:
        rows = self._rows
        squares = np.concatenate([np.vecdot(R, R) for R in self._in_float64(0.0)])
        low, high = float(squares.min()), float(squares.max())
        of_one_length = high - low <= 8 * np.finfo(rows.dtype).eps * high  # but for rounding
        # Measured from the mean, rows that lie close to it lose fewer digits to the product.
        if of_one_length and high - self._mean @ self._mean >= APART * high:
            return Bound.over(rows, np.zeros_like(self._mean), same=high / 2)
        half = np.concatenate([_half_squares(D) for D in self._in_float64(self._mean)])
        return Bound.over(rows, self._mean, half=half.astype(rows.dtype))

    @cached_property
    def _narrow(self) -> Bound | None:
        """The bound from the leading axes, if there are few enough to be worth it."""
        n, m = self._rows.shape
        if n < 16 * m or m < 32:
            return None
        some = self._rows[_some(n)] - self._mean
        variances, axes = np.linalg.eigh(some.T @ some)
        # Of the axes from the last; rounding may leave variances slightly negative.
        share = np.cumsum(variances)
        wanted = int(np.sum(share > SPARE * share[-1]))
        # And one column for the rest, and one for what is taken off: 16, 32, ...
        kept = (wanted + 1) // 16 * 16 + 14
        if kept > m // 2:
            return None
        axes = axes[:, m - kept :]
        parts = []
        for D in self._in_float64(self._mean):
            part = np.column_stack([_project(D, axes), -_half_squares(D)])
            parts.append(part.astype(self._rows.dtype))
        return Bound.over(np.concatenate(parts), self._mean, axes=axes)

    def _in_float64(self, origin: Any) -> Iterator[NDArray[np.float64]]:
        """Yield the rows, block after block, measured from a point."""
        n, m = self._rows.shape
        for block in row_blocks(n, m, itemsize=8):
            yield self._rows[block] - np.asarray(origin, np.float64)


class _Memory:
    """Memory of a search, which one tile after the other uses: what is asked for anew is slow."""

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
        X = np.column_stack([_project(D, self.axes), np.ones(len(D))])
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


def kth_by_product(Q: Array, rows: Array, k: int) -> Array:
    """Return which of the unit rows is the k-th nearest to each unit row of Q (n, m).

    For devices that NumPy does not reach, in the backend of both. Rows within rounding of the k-th
    product may change places with it.
    """
    xp = namespace(Q)
    values: Array = None
    index: Array = None
    for start in range(0, rows.shape[0], 8 * TILE):
        S = Q @ rows[start : min(start + 8 * TILE, rows.shape[0]), :].T
        found = places_of_largest(S, min(k, S.shape[1]))
        if values is None:
            values, index = _at(S, found), found + start
            continue
        both = xp.concat([values, _at(S, found)], axis=1)
        places = xp.concat([index, found + start], axis=1)
        best = places_of_largest(both, min(k, both.shape[1]))
        values, index = _at(both, best), _at(places, best)
    return index[:, k - 1]


def _at(S: Array, places: Array) -> Array:
    """Return what a search has for each query at its places (n, k) of S."""
    xp = namespace(S)
    if hasattr(xp, "gather"):  # which torch.export traces for any number of rows
        return xp.gather(S, 1, places)
    return xp.take_along_axis(S, places, axis=1)


def _shares(Q: Floats, threads: int) -> list[Floats]:
    """Return queries in blocks of one size, about, as many for each thread as for the others.

    >>> [len(block) for block in _shares(np.zeros((2100, 1)), threads=2)]
    [525, 525, 525, 525]
    """
    blocks = max(1, -(-len(Q) // QUERIES))
    if blocks > 1:
        blocks = -(-blocks // threads) * threads
    return np.array_split(Q, blocks)


def _squares(rows: Floats, q: Floats) -> Floats:
    D = rows - q
    return np.asarray(np.vecdot(D, D))


def _half_squares(D: Floats) -> Floats:
    return np.asarray(np.vecdot(D, D) / 2)


def _tiles(n: int) -> tuple[list[slice], list[slice]]:
    """Return slices that deal a search's n rows out to tiles, and some of them, to judge all by.

    A tile takes every p-th row, so that it is like all the others however the rows are sorted; p is
    prime, so that this holds where they come by turns, too.
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
    """Return the largest of groups of 8 columns of S (n, t)."""
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
    """Return numbers from 0 on for each of a search's counts, so many, one after the other.

    >>> _counted(np.array([2, 0, 3]))
    array([0, 1, 0, 1, 2])
    """
    starts = np.cumsum(counts) - counts
    return np.arange(counts.sum()) - np.repeat(starts, counts)


def _weighted_kth(values: Floats, counts: NDArray[np.int64], k: int) -> int:
    """Return which distance of a search is the k-th smallest if each occurs `counts` times."""
    order = np.argsort(values)
    return int(order[np.searchsorted(np.cumsum(counts[order]), k)])


def _project(D: NDArray[np.float64], axes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the coordinates of the rows D along the axes, and at least the length of the rest."""
    along = D @ axes
    squares = np.vecdot(D, D)
    rounding = 16 * len(axes) * np.finfo(np.float64).eps * squares
    rest = np.sqrt(np.maximum(squares - np.vecdot(along, along), 0) + rounding)
    return np.concatenate([along, rest[:, None]], axis=1)


def _some(n: int) -> NDArray[np.int64]:
    """Return which of n rows stand for all where a search finds its axes."""
    size = min(n, max(SAMPLE, n // 16))
    return np.sort(np.random.default_rng(0).choice(n, size, replace=False))
