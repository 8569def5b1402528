"""Keys: 64-bit hashes by which a uniform sample is drawn that merges exactly.

What has the smallest keys depends on neither the order of the rows nor how they were split.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from typica.arrays import Rows
from typica.threads import blas_threads, in_threads

Keys = NDArray[np.uint64]

STEP = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: SplitMix64's own step
_BLOCK_BYTES = 2**21  # several arrays of this size stay in the cache


def scrambled(x: Keys) -> Keys:
    """Return 64-bit numbers whose every bit depends on all bits of x: the end of SplitMix64.

    Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014.
    """
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))


def text_keys(texts: Iterable[str]) -> Keys:
    """Return a key for each text.

    >>> bool(text_keys(["cat", "dog"])[1] == text_keys(["dog"])[0])
    True
    """
    digests = [hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts]
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def row_keys(source: str, start: int, count: int) -> Keys:
    """Return the keys of `count` rows of a source, from row `start` on.

    SplitMix64 twice: over the row number, and over that together with a digest of the source.

    >>> bool((row_keys("a.npy", 0, 3)[1:] == row_keys("a.npy", 1, 2)).all())
    True
    """
    numbers = np.arange(start, start + count, dtype=np.uint64)
    return scrambled((scrambled(numbers + STEP) ^ text_keys([source])) + STEP)


def row_sums(Z: Rows) -> Keys:
    """Return for each row the sum of its numbers' bits, times an odd factor per column, mod 2^64.

    Numbers are looked at in float64, where equal ones of any dtype have equal bits.
    """
    columns = np.arange(1, Z.shape[1] + 1, dtype=np.uint64)
    factors = scrambled(columns * STEP) | np.uint64(1)
    threads = blas_threads() if Z.nbytes > _BLOCK_BYTES else 1
    parts = in_threads(lambda part: _part_sums(part, factors), np.array_split(Z, threads), threads)
    return np.concatenate(list(parts))


def _part_sums(Z: Rows, factors: Keys) -> Keys:
    """Return the `row_sums` of some rows, by blocks."""
    sums = np.empty(len(Z), np.uint64)
    step = max(1, _BLOCK_BYTES // (8 * Z.shape[1]))
    # Memory that every block uses again: new pages would cost more than the sums.
    numbers, upper = np.empty((2, step, Z.shape[1]))
    for start in range(0, len(Z), step):
        rows = Z[start : start + step]
        np.add(rows, 0.0, out=numbers[: len(rows)])  # the sum turns -0.0 into 0.0
        bits, halves = (each[: len(rows)].view(np.uint64) for each in (numbers, upper))
        # The lower half of a number that was narrower is zero, and would stay so in the sum.
        np.right_shift(bits, np.uint64(32), out=halves)
        np.bitwise_xor(bits, halves, out=bits)
        np.einsum("ij,j->i", bits, factors, out=sums[start : start + step])
    return sums
