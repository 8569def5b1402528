"""Online p-values: each score is ranked among the calibration scores and all before it.

    p_t = (#{earlier < s_t} + U_t (1 + #{earlier = s_t})) / (n + t)

With U_t uniform, p_1, p_2, ... are independent and uniform as long as calibration and stream are
exchangeable (Vovk, Gammerman, Shafer 2005). Against a calibration set that does not grow they are
not independent.

Memory is bounded: once `cells` scores are there, no new values are kept. Later scores are counted
in the cells that the kept values form (each value, and each gap between two), and compare by cell.
As every score in a gap came after the values around it were fixed, those in one gap are
exchangeable, and U_t settles their order without any loss of validity.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray
from typica.checks import count, random_numbers
from typica.store import State, storable

CHUNK = 1024  # scores ranked at a time
CELLS = 2**13  # values kept
BLOCK = 64  # of these, compared pair by pair
_WORD = np.uint64  # of BLOCK bits
_EARLIER = np.packbits(np.tri(BLOCK, k=-1, dtype=np.bool_)).view(_WORD)  # bits of those before each


@storable("online_ranks")
class OnlineRanks:
    """Ranks of scores among all before them.

    >>> ranks = OnlineRanks(np.arange(100.0), seed=0)
    >>> ranks.p_values(np.array([-1.0, 50.5, 1e9])).round(2)
    array([0.01, 0.51, 0.99])
    >>> ranks.n
    103
    """

    def __init__(self, calibration: AnyArray, cells: int = CELLS, seed: Any = 0) -> None:
        count().check("cells", cells)
        self.cells = int(cells)
        self.rng = random_numbers(seed)
        self._values: NDArray[np.float64] = np.empty(0)
        # gap, value, gap, ..., value, gap
        self._counts: NDArray[np.int64] = np.zeros(1, dtype=np.int64)
        self.n = 0
        # In random order: which of many calibration scores are kept must not depend on their size.
        shuffled = self.rng.permutation(np.asarray(calibration, dtype=np.float64))
        self._keep(shuffled[:cells])
        self._count(self._cell(shuffled[cells:]))

    def p_values(self, scores: AnyArray) -> NDArray[np.float64]:
        """Return the p-values of scores in the order of their arrival, and remember the scores."""
        scores = np.asarray(scores, dtype=np.float64)
        p = np.empty(len(scores))
        start = 0
        while start < len(scores):
            room = self.cells - self.n
            stop = min(start + CHUNK, len(scores), start + room if room > 0 else len(scores))
            p[start:stop] = self._ranked(scores[start:stop], keep=room > 0)
            start = stop
        return p

    def _ranked(self, scores: NDArray[np.float64], keep: bool) -> NDArray[np.float64]:
        cell = self._cell(scores)
        below, equal = earlier(scores if keep else cell)
        here = self._counts[cell]
        below += np.cumsum(self._counts)[cell] - here
        equal += here
        totals = np.arange(self.n + 1, self.n + len(scores) + 1)
        p = (below + (1 - self.rng.random(len(scores))) * (1 + equal)) / totals
        if keep:
            self._keep(scores)
        else:
            self._count(cell)
        return np.asarray(p)

    def _cell(self, scores: NDArray[np.float64]) -> AnyArray:
        """Return 2i + 1 for the i-th of the values kept, and 2i for the gap before it."""
        cell = np.zeros(len(scores), dtype=np.int16 if len(self._counts) < 2**15 else np.int64)
        if len(self._values):
            order = np.argsort(scores)  # ascending scores are found faster
            ordered = scores[order]
            place = np.searchsorted(self._values, ordered, side="left")
            equal = self._values[np.minimum(place, len(self._values) - 1)] == ordered
            cell[order] = 2 * place + equal
        return cell

    def _keep(self, scores: NDArray[np.float64]) -> None:
        """Take scores in as values of their own; all gaps are still empty."""
        old = np.repeat(self._values, self._counts[1::2])
        self._values, counts = np.unique(np.concatenate([old, scores]), return_counts=True)
        self._counts = np.zeros(2 * len(self._values) + 1, dtype=np.int64)
        self._counts[1::2] = counts
        self.n += len(scores)

    def _count(self, cell: AnyArray) -> None:
        np.add.at(self._counts, cell, 1)
        self.n += len(cell)

    def state(self) -> State:
        """Return what is to be stored."""
        # The generator's state is a dict of integers, some of 128 bits, which JSON can hold.
        random = self.rng.bit_generator.state
        return {
            "cells": self.cells,
            "n": self.n,
            "values": self._values,
            "counts": self._counts,
            "random": random,
        }

    @classmethod
    def from_state(cls, state: State) -> OnlineRanks:
        """Rebuild the ranks from what was stored; the random numbers go on where they stopped."""
        made = cls(np.empty(0), state["cells"])
        made.n, made._values, made._counts = state["n"], state["values"], state["counts"]
        made.rng.bit_generator.state = state["random"]
        return made


def earlier(keys: AnyArray) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return for each of up to CHUNK keys how many before it are smaller, and how many are equal.

    >>> earlier(np.array([3, 1, 3, 2, 3]))
    (array([0, 0, 1, 1, 2]), array([0, 0, 1, 0, 2]))
    """
    n = len(keys)
    order = np.argsort(keys, kind="stable")  # by radix, and fast, if the keys are int16
    ordered = keys[order]
    new = np.ones(n, dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    first_of_group = np.flatnonzero(new)[np.cumsum(new) - 1]
    first = np.empty(n, dtype=np.int16)  # the rank of each key, equal for equal keys
    first[order] = first_of_group
    equal = np.empty(n, dtype=np.int64)
    # A stable sort keeps equal keys in the order of arrival.
    equal[order] = np.arange(n) - first_of_group

    # Smaller keys in earlier blocks: table[b, r] counts those of rank below r in the blocks before
    # b.
    blocks = -(-n // BLOCK)
    table = np.zeros((blocks, n + 1), dtype=np.int64)
    np.cumsum(order // BLOCK < np.arange(blocks)[:, None], axis=1, out=table[:, 1:])
    smaller = table[np.arange(n) // BLOCK, first]

    # Smaller keys in the same block, pair by pair.
    padded = np.zeros(blocks * BLOCK, dtype=np.int16)
    padded[:n] = first
    rows = padded.reshape(blocks, BLOCK)
    pairs = np.packbits(rows[:, None, :] < rows[:, :, None]).view(_WORD).reshape(blocks, BLOCK)
    smaller += np.bitwise_count(pairs & _EARLIER).ravel()[:n]
    return smaller, equal
