"""Threads of our own, as many as the user lets BLAS have."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")


@cache
def blas() -> Any:
    """Return what limits the threads of BLAS."""
    return ThreadpoolController().select(user_api="blas")


def blas_threads() -> int:
    """Return how many threads the user lets BLAS have; what works beside it takes as many."""
    return max((library["num_threads"] for library in blas().info()), default=1)


def leave_one() -> Any:
    """Let BLAS, in the block, leave a core to whoever reads ahead: its threads wait by turning.

    >>> with leave_one():
    ...     blas_threads() >= 1
    True
    """
    return blas().limit(limits=max(1, blas_threads() - 1))


def in_threads(
    work: Callable[[Item], Result], items: Iterable[Item], threads: int
) -> Iterator[Result]:
    """Yield work(item) for each item, in order, as many at once as there are threads.

    Only so many results wait to be taken. When the caller stops, what is under way is finished.

    >>> list(in_threads(abs, [-1, 2, -3], threads=2))
    [1, 2, 3]
    """
    if threads == 1:
        yield from map(work, items)
        return
    waiting: deque[Future[Result]] = deque()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="typica")
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
