"""A terminal's table that leaves out columns rather than break numbers."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator

from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.table import Column, Table
from rich.text import Text

FOLDED = 12  # characters to which a column of text may be folded


class NarrowTable:
    """A rich table that fits the terminal: without its last columns, where there is no room.

    The first column always stays, those named in `keep` as long as others can go. What is left out
    is named below.
    """

    def __init__(self, table: Table, keep: Collection[str] = ()) -> None:
        self.table = table
        self.keep = keep

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        columns = self.table.columns
        needs = [self._need(column, console, options) for column in columns]
        shown = list(range(len(columns)))
        for index in self._to_leave():
            if sum(needs[i] for i in shown) <= options.max_width:
                break
            shown.remove(index)
        yield self._with_only(shown)
        absent = [str(columns[i].header) for i in range(len(columns)) if i not in shown]
        if absent:
            yield Text(f"no room for: {', '.join(absent)}", style="dim")

    def _need(self, column: Column, console: Console, options: ConsoleOptions) -> int:
        """Return the width at which no number, and no word of a heading, is broken."""
        wide = options.update(max_width=10_000)
        sizes = [Measurement.get(console, wide, cell) for cell in (column.header, *column.cells)]
        if column.no_wrap:
            need = max(size.maximum for size in sizes)
        else:
            need = max(size.minimum for size in sizes)
        if column.justify == "left" and not column.no_wrap:
            need = min(need, FOLDED)
        return max(need, column.min_width or 0) + self.table.padding[1] + self.table.padding[3]

    def _to_leave(self) -> list[int]:
        """Return the columns in the order in which they go."""
        last_first = range(len(self.table.columns) - 1, 0, -1)
        return sorted(last_first, key=lambda i: str(self.table.columns[i].header) in self.keep)

    def _with_only(self, shown: list[int]) -> Table:
        if len(shown) == len(self.table.columns):
            return self.table
        narrow = copy.copy(self.table)
        narrow.columns = []
        for index in shown:
            column = copy.copy(self.table.columns[index])
            column._index = len(narrow.columns)
            narrow.columns.append(column)
        return narrow
