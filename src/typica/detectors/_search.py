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

from collections.abc import Iterator
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray, row_blocks
from typica.detectors._search_bound import Bound, Floats, project, some_rows
from typica.linalg import symmetric_axes
from typica.threads import blas_threads, in_threads, one_blas_thread

# Queries that one thread works on at once, at most: as many as a product must have to run at the
# speed of a larger one.
QUERIES = 1024
FEW = 64  # queries that are not worth the principal axes
SPARE = 0.003  # the share of the rows' variance that may lie off the axes
APART = 0.1  # of the rows' squared length: with less of it about their mean, they lie close to it
PAIRS = 512  # of a query and a row, measured at once


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
        """Return one of each set of equal rows, so that repeated rows cost nothing."""
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

        wanted: about how many candidates are looked at.
        """
        X, reach = bound.queries(Q)
        candidates, values, least = bound.candidates(X, wanted)
        # Lower bounds on the squared distances: of the candidates, nearest first, and of all other
        # rows.
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
        some = self._rows[some_rows(n)] - self._mean
        variances, axes = symmetric_axes(some.T @ some)
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
            part = np.column_stack([project(D, axes), -_half_squares(D)])
            parts.append(part.astype(self._rows.dtype))
        return Bound.over(np.concatenate(parts), self._mean, axes=axes)

    def _in_float64(self, origin: Any) -> Iterator[NDArray[np.float64]]:
        """Yield the rows, block after block, measured from a point."""
        n, m = self._rows.shape
        for block in row_blocks(n, m, itemsize=8):
            yield self._rows[block] - np.asarray(origin, np.float64)


def _shares(Q: Floats, threads: int) -> list[Floats]:
    """Return queries in blocks of about equal size, the same number for each thread.

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


def _weighted_kth(values: Floats, counts: NDArray[np.int64], k: int) -> int:
    """Return which distance of a search is the k-th smallest if each occurs `counts` times."""
    order = np.argsort(values)
    return int(order[np.searchsorted(np.cumsum(counts[order]), k)])
