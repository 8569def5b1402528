"""Threads of our own, as many as the user lets BLAS have, for a caller who may press Ctrl-C.

The pool and the futures of the standard library take their locks in steps of Python. A Ctrl-C
between two of them leaves a lock held, for which a thread then waits forever, or releases one that
is not held. Here each step of the caller, which is what Ctrl-C stops, is one step of C.
"""

import contextlib
import threading
from _thread import start_new_thread
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")

_blas_lock = threading.Lock()
_blas_limits: list[int] = []  # one for each block that is open, in any thread
_blas_before: list[Any] = []  # what restores BLAS when the last of these blocks ends


@cache
def blas() -> Any:
    """Return what limits the threads of BLAS."""
    return ThreadpoolController().select(user_api="blas")


def blas_threads() -> int:
    """Return how many threads BLAS may have; we start as many of our own."""
    return max((library["num_threads"] for library in blas().info()), default=1)


def one_blas_thread_fewer() -> contextlib.AbstractContextManager[None]:
    """Let BLAS have one thread fewer in the block, because its threads busy-wait.

    This leaves a core to a thread that reads ahead.

    >>> with one_blas_thread_fewer():
    ...     blas_threads() >= 1
    True
    """
    return _blas_limited(lambda threads: max(1, threads - 1))


def one_blas_thread() -> contextlib.AbstractContextManager[None]:
    """Let BLAS work only in the caller's thread in the block.

    >>> with one_blas_thread():
    ...     blas_threads()
    1
    """
    return _blas_limited(lambda threads: 1)


@contextlib.contextmanager
def _blas_limited(limit: Callable[[int], int]) -> Iterator[None]:
    """Limit BLAS in the block; limit: how many threads it may have of those that it had.

    The number is one for the whole process, and blocks of several threads may overlap: the smallest
    limit holds, and the last block that ends restores what was there before the first.
    """
    with _blas_lock:
        if not _blas_limits:
            _blas_before[:] = [blas_threads(), blas().limit(limits=None).__enter__()]
        own = limit(_blas_before[0])
        _blas_limits.append(own)
        blas().limit(limits=min(_blas_limits))
    try:
        yield
    finally:
        with _blas_lock:
            _blas_limits.remove(own)
            if _blas_limits:
                blas().limit(limits=min(_blas_limits))
            else:
                _blas_before[1].__exit__(None, None, None)


class Task(Generic[Result]):
    """Work that a thread does, and what comes of it."""

    def __init__(self, work: Callable[[], Result]) -> None:
        self._work = work
        self._outcome: SimpleQueue[tuple[Result | None, BaseException | None]] = SimpleQueue()

    def run(self) -> None:
        """Do the work; what it raises is for the caller."""
        try:
            self._outcome.put((self._work(), None))
        except BaseException as error:
            self._outcome.put((None, error))

    def done(self) -> bool:
        """Tell whether the result is there and has not been taken."""
        return not self._outcome.empty()

    def result(self) -> Result:
        """Wait for the work, and return its result or raise its error; only once."""
        result, error = self._outcome.get()
        if error is not None:
            raise error
        return result  # type: ignore[return-value]


class Threads:
    """A few threads, which take up tasks in the order in which they are submitted.

    They start with the first task. When the block ends, running tasks are finished, waiting ones
    are dropped, and the threads end. stopped: whether the block is ending, for long work to check.

    >>> with Threads(2, "typica-example") as threads:
    ...     tasks = [threads.submit(abs, number) for number in (-1, 2)]
    ...     [task.result() for task in tasks]
    [1, 2]
    """

    def __init__(self, count: int, name: str) -> None:
        self._count, self._name = count, name
        self._tasks: SimpleQueue[Task[Any] | None] = SimpleQueue()
        self._gone: SimpleQueue[None] = SimpleQueue()
        self._begun = self.stopped = False

    def submit(self, work: Callable[[Item], Result], item: Item) -> Task[Result]:
        """Return the task of doing `work` with an item, which a thread takes up."""
        task = Task(lambda: work(item))
        self._tasks.put(task)
        if not self._begun:
            # The threads of `threading` wait for each other in steps of Python when they start and
            # when they end: one that no Ctrl-C stops does that for us.
            start_new_thread(self._keep, ())
            self._begun = True
        return task

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stopped = True
        for _ in range(self._count):
            self._tasks.put(None)
        if self._begun:
            self._gone.get()

    def _keep(self) -> None:
        """Start the threads, and say when all are gone; where none starts, do their work."""
        started = list(self._started())
        if not started:
            self._work()
        for thread in started:
            thread.join()
        self._gone.put(None)

    def _started(self) -> Iterator[threading.Thread]:
        """Yield threads of our own as they start, as many as the system allows."""
        for number in range(self._count):
            name = f"{self._name}_{number}"
            thread = threading.Thread(target=self._work, name=name, daemon=True)
            try:
                thread.start()
            except RuntimeError:  # fewer take longer, and do the same
                return
            yield thread

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            if not self.stopped:
                task.run()


def in_threads(
    work: Callable[[Item], Result], items: Iterable[Item], threads: int
) -> Iterator[Result]:
    """Yield work(item) for each item, in order, as many at once as there are threads.

    At most that many results wait to be taken. When the caller stops, running work is finished.

    >>> list(in_threads(abs, [-1, 2, -3], threads=2))
    [1, 2, 3]
    """
    if threads == 1:
        yield from map(work, items)
        return
    waiting: deque[Task[Result]] = deque()
    with Threads(threads, "typica") as pool:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
