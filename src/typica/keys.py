"""Keys: 64-bit hashes by which a uniform sample is drawn that merges exactly.

What has the smallest keys depends on neither the order of the rows nor how they were split.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.uint64]

STEP = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: SplitMix64's own step


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
