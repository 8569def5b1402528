"""How many threads run a network, and how they share a batch: found out while it answers.

Threads that share every layer wait for each other after each one, and for whatever else needs a
core: the requests themselves. So a batch can also be split: each thread runs some of its images
from the first layer to the last, on a twin of the network. A single image cannot be split, and a
small network is fastest in one thread. The first batches of each size are run every way in turn and
timed, later ones the way that was fastest lately; now and then another way is tried again, since
the load changes.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from typica.arrays import AnyArray
from typica.nets import Reopened

TRIES = 5  # remembered for each way; their median counts
AGAIN = 64  # batches after which a slower way is tried once more

Look = Callable[[Reopened, Sequence[Any]], AnyArray]  # a network, images: one row per image


class Way(NamedTuple):
    """How the server runs a batch: in how many parts side by side, and threads for each."""

    parts: int
    threads: int


class Ways:
    """The server's fastest way to run a network, for batches of each size; used from one thread.

    threads: the most that there may be. parts: the most that a batch may have.

    >>> ways = Ways(threads=2, parts=2)
    >>> for seconds in (3.0, 2.0, 1.0) * TRIES:
    ...     ways.note(8, ways.wanted(8), seconds)
    >>> ways.wanted(8)
    Way(parts=2, threads=1)
    """

    def __init__(self, threads: int, parts: int) -> None:
        self._threads, self._parts = threads, parts
        self._seconds: dict[tuple[int, Way], deque[float]] = {}
        self._batches = Counter[int]()  # by size

    def wanted(self, size: int) -> Way:
        """Return the way in which the server's threads run the next batch of this size."""
        ways = self._to_try(size)
        tries = {way: self._seconds.get((size, way), deque[float]()) for way in ways}
        least_tried = min(ways, key=lambda way: len(tries[way]))
        if len(tries[least_tried]) < TRIES:
            return least_tried
        fastest, *slower = sorted(ways, key=lambda way: median(tries[way]))
        rounds, left = divmod(self._batches[size], AGAIN)
        return slower[rounds % len(slower)] if slower and left == 0 else fastest

    def note(self, size: int, way: Way, seconds: float) -> None:
        """Take in how long a batch has taken."""
        self._batches[size] += 1
        self._seconds.setdefault((size, way), deque(maxlen=TRIES)).append(seconds)

    def _to_try(self, size: int) -> list[Way]:
        """Return the ways for the server's threads: all on a layer, one alone, one on each part."""
        parts = min(self._parts, size)
        found = [Way(1, self._threads), Way(1, 1), Way(parts, 1)]
        return list(dict.fromkeys(found))


class Crew:
    """The threads that run networks; one of them tells the others what to do.

    threads: how many there may be. parts: the most that a batch may have.
    """

    def __init__(self, name: str, threads: int, parts: int) -> None:
        self._threads, self._parts = threads, min(threads, parts)
        self._pool = ThreadPoolExecutor(max(1, self._parts - 1), f"typica-{name}-network")
        self._networks: list[Reopened] = []  # the first one, and its twins
        self._ways = Ways(threads, 1)

    def run(self, network: Reopened, images: Sequence[Any], look: Look) -> AnyArray:
        """Return what look(network, images) does, made in the way that is fastest."""
        if not self._networks or network is not self._networks[0]:
            self._begin(network)
        way = self._ways.wanted(len(images))
        began = perf_counter()
        if way.parts == 1:
            rows = _looked(look, network, images, way.threads)
        else:
            rows = self._parted(images, look, way)
        self._ways.note(len(images), way, perf_counter() - began)
        return rows

    def close(self) -> None:
        """End the server's threads."""
        self._pool.shutdown()

    def _begin(self, network: Reopened) -> None:
        """Make twins of a network, and start finding its fastest way again."""
        self._networks = [network]
        while len(self._networks) < self._parts and (twin := network.twin()) is not None:
            self._networks.append(twin)
        self._ways = Ways(self._threads, len(self._networks))

    def _parted(self, images: Sequence[Any], look: Look, way: Way) -> AnyArray:
        first, *others = in_parts(images, way.parts)
        twins = self._networks[1:]
        beside = [
            self._pool.submit(_looked, look, twin, part, way.threads)
            for twin, part in zip(twins, others, strict=False)
        ]
        try:
            rows = _looked(look, self._networks[0], first, way.threads)
        finally:
            wait(beside)  # or the next batch could find a twin still at work
        return np.concatenate([rows, *[done.result() for done in beside]])


def in_parts(items: Sequence[Any], parts: int) -> list[Sequence[Any]]:
    """Return the items of a batch in parts of nearly equal size, for threads of the server.

    >>> in_parts("abcde", 2)
    ['abc', 'de']
    """
    size, longer = divmod(len(items), parts)
    found, start = [], 0
    for place in range(parts):
        end = start + size + (place < longer)
        found.append(items[start:end])
        start = end
    return found


def _looked(look: Look, network: Reopened, images: Sequence[Any], threads: int) -> AnyArray:
    """Return look(network, images), run on the server by this many threads of torch."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.get_num_threads() != threads:
        torch.set_num_threads(threads)
    return look(network, images)


def alone_in_server() -> None:
    """Let torch, if it is installed, use only the calling thread of the server.

    OpenMP keeps the threads that a thread has used, and lets waiting ones spin only while there are
    no more of them than cores; otherwise they sleep after every layer, which takes twice the time.
    So only the thread that tells a crew what to do has others; a thread that opens a network has
    none, and neither do the crew's.
    """
    if importlib.util.find_spec("torch") is not None:
        importlib.import_module("torch").set_num_threads(1)
