"""In how many threads a network is run: found out while it answers.

Threads that share a batch wait for each other after every layer, and for whoever else needs a core:
the requests themselves. So a small network is faster in one thread, a large one in all. The first
batches of each size are run both ways in turn and timed, later ones the way that was faster lately;
now and then the other one is tried again, since the load changes.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections import Counter, deque
from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import TypeVar

T = TypeVar("T")

TRIES = 5  # each way, that are remembered; their median counts
AGAIN = 64  # batches after which the slower way is tried once more


class Threads:
    """One network's number of threads, for batches of each size; used from one thread.

    >>> threads = Threads(most=2)
    >>> for seconds in (3.0, 1.0) * TRIES:
    ...     threads.note(8, threads.wanted(8), seconds)
    >>> threads.wanted(8)
    1
    """

    def __init__(self, most: int) -> None:
        self._ways = (most, 1) if most > 1 else (1,)
        self._seconds: dict[tuple[int, int], deque[float]] = {}
        self._batches = Counter[int]()  # by size

    def run(self, size: int, look: Callable[[], T]) -> T:
        """Return look(), which runs a batch of this size."""
        threads = self.wanted(size)
        _set_threads(threads)
        began = perf_counter()
        result = look()
        self.note(size, threads, perf_counter() - began)
        return result

    def wanted(self, size: int) -> int:
        """Return in how many threads the next batch of this size is run."""
        tries = {way: self._seconds.get((size, way), deque[float]()) for way in self._ways}
        least_tried = min(self._ways, key=lambda way: len(tries[way]))
        if len(tries[least_tried]) < TRIES:
            return least_tried
        by_time = sorted(self._ways, key=lambda way: median(tries[way]))
        return by_time[-1] if self._batches[size] % AGAIN == 0 else by_time[0]

    def note(self, size: int, threads: int, seconds: float) -> None:
        """Take in how long a batch has taken."""
        self._batches[size] += 1
        self._seconds.setdefault((size, threads), deque(maxlen=TRIES)).append(seconds)


def _set_threads(threads: int) -> None:
    """Let torch, where it is what runs networks, use so many threads of the calling one."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.get_num_threads() != threads:
        torch.set_num_threads(threads)


def stay_alone() -> None:
    """Let torch, where it is installed, use no thread beside the calling one.

    OpenMP keeps the threads that a thread has used, and lets those that wait spin only while there
    are no more of them than cores; else they sleep after every layer, which takes twice the time.
    So only the thread that runs a network has others: who opens one goes alone.
    """
    if importlib.util.find_spec("torch") is not None:
        importlib.import_module("torch").set_num_threads(1)
