"""Read ahead: the next batch is read while this one is worked on."""

from __future__ import annotations

import contextvars
import queue
import threading
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

_END = object()
_GLANCE = 0.1  # seconds after which a full queue is looked at again


class _Fetcher:
    """Takes items from an iterable in a thread of its own, until it ends or is stopped."""

    def __init__(self, items: Iterable[Any]) -> None:
        self._items = items
        self.ready: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue(1)
        self._stopped = threading.Event()
        run = contextvars.copy_context().run
        self._thread = threading.Thread(target=run, args=(self._fetch,), daemon=True)
        self._thread.start()

    def _fetch(self) -> None:
        try:
            for item in self._items:
                self._put(item, None)
                if self._stopped.is_set():
                    return
            self._put(_END, None)
        except BaseException as error:  # for the caller to raise
            self._put(_END, error)

    def _put(self, item: Any, error: BaseException | None) -> None:
        """Wait for room, as long as anybody waits for the item."""
        while not self._stopped.is_set():
            try:
                self.ready.put((item, error), timeout=_GLANCE)
            except queue.Full:
                continue
            return

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()


def ahead(items: Iterable[T]) -> Iterator[T]:
    """Yield items that a thread takes from an iterable: one is ready, and the next is being read.

    An error of the iterable is raised where its item would have come. When the caller stops, so
    does the thread.

    >>> list(ahead(range(3)))
    [0, 1, 2]
    """
    fetcher = _Fetcher(items)
    try:
        while True:
            item, error = fetcher.ready.get()
            if error is not None:
                raise error
            if item is _END:
                return
            yield item
    finally:
        fetcher.stop()
