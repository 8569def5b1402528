"""The one channel from work to whoever shows it: what begins, how far it is, what is worth saying.

Library code reports here, and nothing comes of it unless someone watches: the command line shows
bars and lines on standard error, a notebook or a service may show what it likes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Protocol

Advance = Callable[[int], None]


class Watcher(Protocol):
    """What shows work: give one to `watched_by`."""

    def begin(self, what: str, total: int | None, unit: str) -> AbstractContextManager[Advance]:
        """Show work until the block ends; call what it yields with each number that is done.

        Parameters
        ----------
        what
            The name of the work.
        total
            How many there will be, if that is known.
        unit
            Of the speed, such as images/s; empty where a speed says nothing.
        """

    def note(self, text: str) -> None:
        """Say something that a person should know."""


def _unheard(rows: int) -> None:
    pass


_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)
_advance: ContextVar[Advance] = ContextVar("advance", default=_unheard)


def advance(rows: int) -> None:
    """Report that `rows` more rows (or bytes, or images) are done."""
    _advance.get()(rows)


def is_watched() -> bool:
    """Tell whether someone watches, so that it is worth finding out how much there is to do."""
    return _watcher.get() is not None


def note(text: str) -> None:
    """Say something that a person should know while the work goes on."""
    watcher = _watcher.get()
    if watcher is not None:
        watcher.note(text)


@contextlib.contextmanager
def work(what: str, total: int | None, unit: str = "") -> Iterator[None]:
    """Show the block as work on `total` rows, which `advance` counts.

    Where it is a part of other work, its rows count for both.
    """
    watcher = _watcher.get()
    if watcher is None:
        yield
        return
    outer = _advance.get()
    with watcher.begin(what, total, unit) as count:

        def both(rows: int) -> None:
            count(rows)
            outer(rows)

        with listening(both):
            yield


@contextlib.contextmanager
def steps(what: str, total: int) -> Iterator[Callable[[str], None]]:
    """Show the block as work in `total` steps; call what this yields with the name of each one.

    The rows that are worked on within a step do not count.
    """
    watcher = _watcher.get()
    if watcher is None:
        yield lambda name: None
        return
    with watcher.begin(what, total, "") as count, listening(_unheard):
        yield lambda name: count(1)


@contextlib.contextmanager
def listening(heard: Advance) -> Iterator[None]:
    """Call `heard` with each number of rows that is reported inside the block.

    >>> with listening(print):
    ...     advance(3)
    3
    """
    token = _advance.set(heard)
    try:
        yield
    finally:
        _advance.reset(token)


def quiet() -> contextlib.AbstractContextManager[None]:
    """Let nothing be reported inside the block: whoever began it counts by itself."""
    return listening(_unheard)


@contextlib.contextmanager
def watched_by(watcher: Watcher) -> Iterator[None]:
    """Let `watcher` show the work that is done inside the block.

    >>> class Printer:
    ...     @contextlib.contextmanager
    ...     def begin(self, what, total, unit):
    ...         yield lambda rows: print(f"{what}: {rows} more of {total}")
    ...     def note(self, text):
    ...         print(text)
    >>> with watched_by(Printer()), work("scoring", 10):
    ...     advance(4)
    scoring: 4 more of 10
    """
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)
