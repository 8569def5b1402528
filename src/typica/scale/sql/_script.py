"""SQL as it is handed over: statements that make tables, and the query that uses them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from typica.scale.sql._dialects import Dialect
from typica.scale.sql._models import Table

_BYTES = 1 << 20  # of one INSERT, about


@dataclass(frozen=True)
class Script:
    """Statements for one dialect; as text, each ends in a semicolon.

    setup: make the tables that the query reads; run them once, in order. query: the last one.
    """

    dialect: str
    setup: tuple[str, ...]
    query: str

    @property
    def statements(self) -> tuple[str, ...]:
        """All statements in order, without semicolons."""
        return (*self.setup, self.query)

    def __str__(self) -> str:
        return "".join(f"{statement};\n\n" for statement in self.statements).rstrip("\n") + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Return the statements as JSON values."""
        return {"dialect": self.dialect, "setup": list(self.setup), "query": self.query}


class Steps:
    """A query in steps, each a SELECT from the one before, which hands on some columns."""

    def __init__(self, sql: Dialect) -> None:
        self._sql = sql
        self._kept: list[str] = []
        self._steps: list[str] = []
        self._last = ""

    def first(self, name: str, query: str) -> None:
        """Begin with a query that stands alone."""
        self._steps.append(f"{name} {self._sql.begin}\n  {query}\n{self._sql.end}")
        self._last = name

    def beside(self, name: str, query: str) -> None:
        """Put a query that stands alone beside the steps, which some of them join."""
        self._steps.insert(0, f"{name} AS (\n  {query}\n)")

    def then(self, name: str, *columns: str, join: str | None = None) -> None:
        """Add a step: the columns that are handed on, these, and those of `join`."""
        self.first(name, self._select([*self._kept, *columns], join))

    def hand_on(self, *columns: str) -> None:
        """Hand on columns of the last step from now on."""
        self._kept += columns

    def finish(self, *columns: str, join: str | None = None) -> str:
        """Return the whole query, which ends in these columns."""
        return f"WITH {', '.join(self._steps)}\n{self._select(columns, join)}"

    def _select(self, columns: Sequence[str], join: str | None) -> str:
        joined = "" if join is None else f" CROSS JOIN {join}"
        listed = ",\n    ".join(columns)
        return f"SELECT {listed}\n  FROM {self._last}{joined}"


def fill(sql: Dialect, name: str, table: Table) -> Iterator[str]:
    """Yield the statements that make a table of vectors."""
    columns = {"place": "INT"}
    if table.classes is not None:
        columns["class"] = sql.text if table.classes.dtype.kind == "U" else sql.integer
    columns["vector"] = sql.array
    if table.shifts is not None:
        columns["shift"] = sql.double
    if table.thresholds is not None:
        columns["threshold"] = sql.double
    declared = ", ".join(f"{column} {kind}" for column, kind in columns.items())
    yield f"CREATE TABLE {name} ({declared}){sql.stored}"
    for rows in _batches(sql, table):
        yield f"INSERT INTO {name} VALUES\n" + ",\n".join(rows)


def _batches(sql: Dialect, table: Table) -> Iterator[list[str]]:
    rows: list[str] = []
    size = 0
    for i in range(len(table.vectors)):
        rows.append(f"({', '.join(_cells(sql, table, i))})")
        size += len(rows[-1])
        if size >= _BYTES:
            yield rows
            rows, size = [], 0
    if rows:
        yield rows


def _cells(sql: Dialect, table: Table, i: int) -> Iterator[str]:
    yield str(i + 1)
    if table.classes is not None:
        name = table.classes[i]
        yield sql.literal(str(name)) if table.classes.dtype.kind == "U" else str(int(name))
    yield sql.vector(table.vectors[i])
    for column in (table.shifts, table.thresholds):
        if column is not None:
            yield sql.number(column[i])
