"""Read ahead: the next batch is read while this one is worked on."""

from __future__ import annotations

import contextvars
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from typica.threads import Threads

T = TypeVar("T")

_AHEAD = 2  # items: one that is ready, and one that is being read
_END = object()


def ahead(items: Iterable[T]) -> Iterator[T]:
    """Yield items that a thread takes from an iterable: one is ready, and the next is being read.

    An error of the iterable is raised where its item would have come. When the caller stops, so
    does the thread.

    >>> list(ahead(range(3)))
    [0, 1, 2]
    """
    iterator = iter(items)
    context = contextvars.copy_context()

    def take(end: object) -> Any:
        return context.run(next, iterator, end)

    with Threads(1, "typica-ahead") as thread:
        tasks = deque(thread.submit(take, _END) for _ in range(_AHEAD))
        while (item := tasks.popleft().result()) is not _END:
            tasks.append(thread.submit(take, _END))
            yield item
