"""Tell whoever listens how many rows have been worked, so that a command can show a progress bar."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar

_listener: ContextVar[Callable[[int], None] | None] = ContextVar("listener", default=None)


def advance(rows: int) -> None:
    """Report that `rows` more rows are done."""
    listener = _listener.get()
    if listener is not None:
        listener(rows)


@contextlib.contextmanager
def listening(listener: Callable[[int], None]) -> Iterator[None]:
    """Call `listener` with each number of rows that is reported inside the block.

    >>> with listening(print):
    ...     advance(3)
    3
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
