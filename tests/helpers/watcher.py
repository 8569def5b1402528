"""Someone who watches work and remembers what there was to see."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Watcher:
    """Keep what was begun, with its total, how much of each was done, and what was said."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, int | None]] = []
        self.done: list[int] = []
        self.notes: list[str] = []

    @contextmanager
    def begin(self, what: str, total: int | None, unit: str) -> Iterator[Callable[[int], None]]:
        self.begun.append((what, total))
        self.done.append(0)
        number = len(self.done) - 1

        def advance(rows: int) -> None:
            self.done[number] += rows

        yield advance

    def note(self, text: str) -> None:
        self.notes.append(text)
