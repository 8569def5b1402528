"""The one model of a table: columns of plain values that five renderers show (`_table_formats`).

    table = Table("method", ["ctm", "msp"])
    table.add("AUROC", [0.98, 0.91], better="higher")
    table.add("paper", [0.97, 0.92])
    table.add("diff", table.minus(-2, -1), kind="difference")

A cell holds a number as it was measured (a fraction, mostly); its column says how it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal, Self

from typica.bench._measures import Interval, Measure

Kind = Literal["text", "percent", "milli", "number", "difference"]
Better = Literal["higher", "lower"]
Value = float | str | Measure | None
CLOSE, NEAR = 0.005, 0.015  # differences of half a point, and of one and a half


@dataclass(frozen=True)
class Cell:
    """A value, its standard deviation if there is one, whether it is the best, a word beside it.

    interval: where the value may lie, if that is known.
    """

    value: float | str | None = None
    std: float | None = None
    best: bool = False
    tag: str = ""
    interval: Interval | None = None


@dataclass(frozen=True)
class Column:
    """A heading and the cells beneath it.

    kind: text, percent (of a fraction), milli (thousandths), number as it is, or difference (of
    fractions, in points of percent). better: which way, where the numbers of a column compete.
    """

    heading: str
    cells: tuple[Cell, ...]
    kind: Kind = "percent"
    better: Better | None = None

    @property
    def label(self) -> str:
        """The heading with an arrow that points to the better side."""
        arrows = {"higher": " ↑", "lower": " ↓", None: ""}
        return self.heading + arrows[self.better]

    @property
    def has_value(self) -> bool:
        """Whether a cell has a value."""
        return any(cell.value is not None for cell in self.cells)

    @property
    def has_interval(self) -> bool:
        """Whether a cell knows where its value may lie."""
        return any(cell.interval is not None for cell in self.cells)

    @property
    def has_spread(self) -> bool:
        """Whether a cell has a standard deviation; one of 0 is not worth showing."""
        return any(cell.std for cell in self.cells)


class Table:
    """Columns of equal length, the first of which names the rows; a title above, notes below.

    sections: (heading, how many rows) from the first row on; usually one without a heading.
    sorted: the column that the rows are sorted by, if any. why: where a page explains the large
    differences of a row, by its name.
    """

    def __init__(self, heading: str, names: Iterable[str], title: str = "") -> None:
        cells = tuple(Cell(name) for name in names)
        self.title = title
        self.columns: list[Column] = [Column(heading, cells, "text")]
        self.notes: list[str] = []
        self.sections: list[tuple[str, int]] = [("", len(cells))]
        self.sorted: int | None = None
        self.why: dict[str, str] = {}

    def add(
        self,
        heading: str,
        values: Iterable[Value],
        kind: Kind = "percent",
        better: Better | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> Self:
        """Add a column, and mark its best values.

        Parameters
        ----------
        heading
            What stands above the column.
        values
            One value per row.
        kind, better
            How the values are read, and which way is better, as in `Column`.
        tags
            Words to show beside some values, by value.
        """
        cells = tuple(_cell(value, tags or {}) for value in values)
        self.columns.append(Column(heading, cells, kind, better))
        return self.mark_best(better)

    def mark_best(self, better: Better | None) -> Self:
        """Mark the best cells of the last column, where not all are equal."""
        column = self.columns[-1]
        best = best_of([cell.value for cell in column.cells], better)
        if best is not None:
            cells = tuple(replace(cell, best=cell.value == best) for cell in column.cells)
            self.columns[-1] = replace(column, cells=cells)
        return self

    def rename(self, headings: Mapping[str, str]) -> Self:
        """Replace headings, old: new."""
        renamed = []
        for column in self.columns:
            heading = headings.get(column.heading, column.heading)
            renamed.append(replace(column, heading=heading))
        self.columns = renamed
        return self

    def minus(self, first: int, second: int) -> list[float | None]:
        """Return the differences of two columns; None where one of the numbers is missing."""
        pairs = zip(self.columns[first].cells, self.columns[second].cells, strict=True)
        return [difference(one.value, other.value) for one, other in pairs]

    def add_empty_rows(self, names: Iterable[str]) -> Self:
        """Add rows that have only a name."""
        first, *others = self.columns
        added = tuple(Cell(name) for name in names)
        self.columns = [replace(first, cells=first.cells + added)]
        blank = (Cell(),) * len(added)
        self.columns += [replace(column, cells=column.cells + blank) for column in others]
        heading, count = self.sections[-1]
        self.sections[-1] = (heading, count + len(added))
        return self

    def without_empty(self, headings: Iterable[str]) -> Self:
        """Leave out columns with these headings if all of their cells are empty."""
        may_go = set(headings)
        self.columns = [
            column for column in self.columns if column.heading not in may_go or column.has_value
        ]
        return self

    def sorted_by(self, index: int) -> Self:
        """Sort the rows by a column, the better first and those without a number last."""
        if index >= len(self.columns):
            return self
        column = self.columns[index]
        sign = 1 if column.better == "lower" else -1

        def place(row: int) -> tuple[bool, float]:
            value = column.cells[row].value
            if isinstance(value, float):
                return False, sign * value
            return True, 0.0

        order = sorted(range(len(column.cells)), key=place)
        self.columns = [_reordered(other, order) for other in self.columns]
        self.sorted = index
        return self

    @property
    def names(self) -> int:
        """How many columns of text stand before the first one of numbers."""
        kinds = [column.kind for column in self.columns]
        numbers = [index for index, kind in enumerate(kinds) if kind != "text"]
        return numbers[0] if numbers else len(kinds)

    @property
    def rows(self) -> list[tuple[Cell, ...]]:
        """The cells row by row."""
        return list(zip(*(column.cells for column in self.columns), strict=True))

    @property
    def sectioned(self) -> Iterator[tuple[str, list[tuple[Cell, ...]]]]:
        """The rows of each section with its heading."""
        rows, start = self.rows, 0
        for heading, count in self.sections:
            yield heading, rows[start : start + count]
            start += count


def _reordered(column: Column, order: Iterable[int]) -> Column:
    return replace(column, cells=tuple(column.cells[row] for row in order))


def stacked(tables: Mapping[str, Table], title: str = "") -> Table:
    """Return tables of the same columns as the sections of one, each under its heading."""
    first = next(iter(tables.values()))
    made = Table("", (), title)
    made.columns = []
    for index, column in enumerate(first.columns):
        parts = [table.columns[index].cells for table in tables.values()]
        made.columns.append(replace(column, cells=tuple(chain.from_iterable(parts))))
    made.sections = [(heading, len(table.rows)) for heading, table in tables.items()]
    return made


def best_of(values: Iterable[object], better: Better | None) -> float | None:
    """Return the best of the numbers among these; None where fewer than two differ.

    >>> best_of([0.5, "text", 0.75], "higher"), best_of([0.5, 0.5], "lower")
    (0.75, None)
    """
    numbers = {value for value in values if isinstance(value, float)}
    if better is None or len(numbers) < 2:
        return None
    return max(numbers) if better == "higher" else min(numbers)


def difference(one: object, other: object) -> float | None:
    """Return one number minus another, or None where one of them is missing."""
    if isinstance(one, float) and isinstance(other, float):
        return one - other
    return None


def tone(size: float) -> Literal["close", "some", "far"]:
    """Say how large a difference of fractions is: the one rule for the colours of every table.

    >>> tone(-0.005), tone(0.0051), tone(0.0151)
    ('close', 'some', 'far')
    """
    if abs(size) <= CLOSE:
        return "close"
    return "some" if abs(size) <= NEAR else "far"


def _cell(value: Value, tags: Mapping[str, str]) -> Cell:
    if isinstance(value, Measure):
        return Cell(value.value, value.std, interval=value.interval)
    if isinstance(value, str):
        return Cell(value, tag=tags.get(value, ""))
    return Cell(value)
