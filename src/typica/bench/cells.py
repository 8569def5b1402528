"""What a table is made of: plain data. `tables.py` fills it, `render.py` writes it as text.

A cell holds a number as it was measured (a fraction, mostly); its column says how it is to be read.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """kind: text, percent, milli (thousandths), number, or difference (in points of percent)."""

    heading: str
    kind: str = "percent"

    @property
    def lower_is_better(self) -> bool:
        """Whether the heading says so."""
        return "↓" in self.heading


@dataclass(frozen=True)
class Cell:
    """One value, its standard deviation where there is one, and whether it is the best of its column."""

    value: float | str | None = None
    std: float = 0.0
    best: bool = False


@dataclass(frozen=True)
class Table:
    """Columns, rows in sections (heading, rows), and notes to stand under it."""

    title: str
    columns: tuple[Column, ...]
    sections: tuple[tuple[str, tuple[tuple[Cell, ...], ...]], ...]
    notes: tuple[str, ...] = ()
