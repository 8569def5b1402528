"""How many known numbers lie below others: binary searches, written out as operators of ONNX."""

from __future__ import annotations

import numpy as np

from typica.arrays import AnyArray
from typica.export._traced import Traced


def count_among(known: AnyArray, x: Traced, strictly: bool = False) -> Traced:
    """Return how many of the ascending numbers `known` are at most (below) each x (n,).

    A binary search, written out: log2(k) steps for k numbers, each of four operators.
    """
    xp = x.__array_namespace__()
    bits = max(1, len(known).bit_length())
    # From place 1 on, and followed by NaN, with which every comparison is false.
    table = np.full(2**bits, np.nan, dtype=x.dtype)
    table[1 : len(known) + 1] = known
    values = Traced.constant(table)
    places = xp.astype(xp.zeros_like(x), np.int64)
    for bit in reversed(range(bits)):
        further = places + 2**bit
        there = xp.take(values, further)
        passed = there < x if strictly else there <= x
        places = xp.where(passed, further, places)
    return places


def count_in_segments(
    known: AnyArray, starts: AnyArray, sizes: AnyArray, which: Traced, x: Traced
) -> Traced:
    """Return how many numbers of segment `which` (n,) of `known` are at most each x (n,).

    Each segment is ascending: `sizes` numbers from `starts` on.
    """
    xp = x.__array_namespace__()
    # From place 1 on, so that place 0 of a segment is the end of what comes before it.
    values = Traced.constant(np.concatenate([[np.nan], known]), x.dtype)
    base = xp.take(Traced.constant(starts, np.int64), which)
    size = xp.take(Traced.constant(sizes, np.int64), which)
    places = xp.zeros_like(which)
    for bit in reversed(range(max(1, int(sizes.max()).bit_length()))):
        further = places + 2**bit
        there = xp.take(values, xp.minimum(further, size) + base)
        passed = (further <= size) & (there <= x)
        places = xp.where(passed, further, places)
    return places
