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

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray, Array, namespace, row_blocks
from typica.threads import blas, blas_threads

Floats = AnyArray

# Queries that one thread works on at once, against TILE rows: their product stays in the cache.
QUERIES = 512
TILE = 1024
# Rows, or the sixteenth part of all if that is more, from which a query's threshold is taken.
SAMPLE = 4096
FEW = 64  # queries that are not worth the principal axes
SPARE = 0.003  # the share of the rows' variance that may lie off the axes
PAIRS = 512  # of a query and a row, measured at once
PATIENCE = 16  # times as many candidates as asked for: then the bound is no use to the query

_turn = threading.Lock()


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
        blocks = [Q[start : start + QUERIES] for start in range(0, len(Q), QUERIES)]
        threads = blas_threads()
        if len(blocks) == 1 or threads == 1:
            found = [self._settle(block, k, usable) for block in blocks]
        else:
            # Each thread has its own queries, and BLAS no threads of its own; that is set for the
            # whole process, so that searches take turns.
            with (
                _turn,
                blas().limit(limits=1, user_api="blas"),
                ThreadPoolExecutor(threads) as pool,
            ):
                found = list(pool.map(lambda block: self._settle(block, k, usable), blocks))
        return self._distinct.first[np.concatenate(found)]

    def _settle(self, Q: Floats, k: int, bounds: list[Bound]) -> NDArray[np.int64]:
        index = np.full(len(Q), -1)
        for bound in bounds:
            open_ = np.flatnonzero(index < 0)
            if len(open_):
                index[open_] = self._attempt(Q[open_], k, bound)
        for i in np.flatnonzero(index < 0):
            parts = [_squares(self._rows[b], Q[i]) for b in row_blocks(*self._rows.shape)]
            index[i] = _weighted_kth(np.concatenate(parts), self._counts, k)
        return index

    def _attempt(self, Q: Floats, k: int, bound: Bound) -> NDArray[np.int64]:
        """Return for each query the k-th nearest row, or -1 where the bound leaves it open."""
        wanted = max(3 * k, 128)
        X, reach = bound.queries(Q)
        least = bound.threshold(X, wanted)
        candidates, values = bound.at_least(X, least, PATIENCE * wanted)
        # What the squared distances are at least: of the candidates, nearest first, and of all
        # other rows.
        reach -= 2 * bound.margin(X)
        nearer, others = reach[:, None] - 2 * values, reach - 2 * least

        counts = np.where(values > -np.inf, self._counts[candidates], 0)
        first = np.sum(np.cumsum(counts, axis=1) < k, axis=1) + 1  # so many candidates hold k rows
        squares = np.full(values.shape, np.inf, dtype=Q.dtype)
        self._measure(Q, candidates, squares, np.zeros_like(first), first)
        slack = 1 + (Q.shape[1] + 4) * np.finfo(Q.dtype).eps
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
        n, m = self._rows.shape
        blocks = row_blocks(n, m, itemsize=8)
        half = np.concatenate([_half_squares(self._rows[b] - self._mean) for b in blocks])
        return Bound.over(self._rows, half, self._mean, None)

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
        # And one column for the rest: 16, 32, ...
        kept = int(np.sum(share > SPARE * share[-1])) // 16 * 16 + 15
        if kept > m // 2:
            return None
        axes = axes[:, m - kept :]
        parts = (_project(self._rows[b] - self._mean, axes) for b in row_blocks(n, m, itemsize=8))
        rows = np.concatenate([part.astype(self._rows.dtype) for part in parts])
        return Bound.over(rows, self._full.half, self._mean, axes)


class Bound(NamedTuple):
    """An upper bound x·rows_j - half_j on s, up to a constant per query, for any width of rows."""

    rows: Floats
    half: Floats
    mean: NDArray[np.float64]
    axes: NDArray[np.float64] | None
    sample: Floats
    sample_half: Floats
    size: tuple[float, float]

    @classmethod
    def over(
        cls, rows: Floats, half: Floats, mean: NDArray[np.float64], axes: NDArray[np.float64] | None
    ) -> Bound:
        """Set a bound up from its rows (N, w) and what is taken off their products, (N,)."""
        half = half.astype(rows.dtype)
        some = _some(len(rows))
        squares = [float(np.vecdot(rows[b], rows[b]).max()) for b in row_blocks(*rows.shape)]
        size = (max(squares) ** 0.5, float(half.max()))
        return cls(rows, half, mean, axes, rows[some], half[some], size)

    def queries(self, Q: Floats) -> tuple[Floats, NDArray[np.float64]]:
        """Return X (n, w) to multiply, and r (n,): |q - b_j|² >= r - 2 (x·rows_j - half_j)."""
        D = Q - self.mean
        squares = np.vecdot(D, D)
        if self.axes is None:  # then the rows are not moved to the mean
            return D.astype(Q.dtype), squares + 2 * D @ self.mean
        return _project(D, self.axes).astype(Q.dtype), squares

    def threshold(self, X: Floats, wanted: int) -> Floats:
        """Return for each query what about `wanted` rows reach, judging by the sample."""
        n, size = len(X), len(self.sample)
        if wanted >= len(self.rows):
            return np.full(n, -np.inf, dtype=X.dtype)
        S = X @ self.sample.T - self.sample_half
        rank = -(-wanted * size // len(self.rows))
        if size >= 32 * rank:
            # The largest of groups of 8 hold nearly the same `rank` largest, and are fewer.
            S = S[:, : size // 8 * 8].reshape(n, 8, size // 8).max(axis=1)
        return np.partition(S, -rank, axis=1)[:, -rank]

    def at_least(self, X: Floats, least: Floats, most: int) -> tuple[NDArray[np.int64], Floats]:
        """Return for each query the rows that reach `least`, and their values, (n, p), falling.

        Where a query has fewer than p, the values end in -inf. One that has more than `most` is
        given up.
        """
        found = np.zeros(len(X), dtype=np.int64)
        parts = []
        for start in range(0, len(self.rows), TILE):
            S = X @ self.rows[start : start + TILE].T
            S -= self.half[start : start + TILE]
            places = np.flatnonzero(np.where(found > most, np.inf, least)[:, None] <= S)
            query, column = np.divmod(places, S.shape[1])
            parts.append((query, found[query] + _rank(query), column + start, S.ravel()[places]))
            found += np.bincount(query, minlength=len(X))
        query, place, column, value = (np.concatenate(part) for part in zip(*parts, strict=True))
        kept = found[query] <= most
        shape = (len(X), max(1, int(np.max(found, where=found <= most, initial=0))))
        columns, values = np.zeros(shape, dtype=np.int64), np.full(shape, -np.inf, dtype=X.dtype)
        columns[query[kept], place[kept]] = column[kept]
        values[query[kept], place[kept]] = value[kept]
        order = np.argsort(-values, axis=1)
        return np.take_along_axis(columns, order, axis=1), np.take_along_axis(values, order, axis=1)

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
    for start in range(0, rows.shape[0], 16 * TILE):
        S = Q @ rows[start : min(start + 16 * TILE, rows.shape[0]), :].T
        found = _largest(S, min(k, S.shape[1]))
        if values is None:
            values, index = _at(S, found), found + start
            continue
        both = xp.concat([values, _at(S, found)], axis=1)
        places = xp.concat([index, found + start], axis=1)
        best = _largest(both, min(k, both.shape[1]))
        values, index = _at(both, best), _at(places, best)
    return index[:, k - 1]


def _largest(S: Array, k: int) -> Array:
    """Return where the k largest numbers of each row of S are, the largest first."""
    xp = namespace(S)
    if hasattr(xp, "topk"):
        return xp.topk(S, k, dim=1).indices
    return xp.argsort(S, axis=1, descending=True)[:, :k]


def _at(S: Array, places: Array) -> Array:
    """Return the numbers of each row of S at its places (n, k)."""
    xp = namespace(S)
    if hasattr(xp, "gather"):  # which torch.export traces for any number of rows
        return xp.gather(S, 1, places)
    return xp.take_along_axis(S, places, axis=1)


def _squares(rows: Floats, q: Floats) -> Floats:
    D = rows - q
    return np.asarray(np.vecdot(D, D))


def _half_squares(D: Floats) -> Floats:
    return np.asarray(np.vecdot(D, D) / 2)


def _rank(owners: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of each entry among those of its owner; the owners are sorted.

    >>> _rank(np.array([3, 3, 5, 5, 5]))
    array([0, 1, 0, 1, 2])
    """
    return np.arange(len(owners)) - np.searchsorted(owners, owners)


def _weighted_kth(values: Floats, counts: NDArray[np.int64], k: int) -> int:
    """Return which of the values is the k-th smallest if each occurs `counts` times."""
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
    """Return which of n rows stand for all."""
    size = min(n, max(SAMPLE, n // 16))
    return np.sort(np.random.default_rng(0).choice(n, size, replace=False))
