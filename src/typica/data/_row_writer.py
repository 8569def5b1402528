"""Rows out, a chunk at a time: .csv, .jsonl and .parquet, or lines that are printed."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import numpy as np

from typica.as_json import json_values
from typica.errors import InputError
from typica.extras import need
from typica.files import atomic_path
from typica.spreadsheets import quoted_cell


class RowWriter:
    """Write rows, a chunk of columns at a time; the file appears when all is done.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "rows.csv"
    >>> with RowWriter(path) as writer:
    ...     writer.write({"row": [0, 1], "score": [0.5, 0.25]})
    >>> print(path.read_text())
    row,score
    0,0.5
    1,0.25
    <BLANKLINE>
    """

    ENDINGS = (".csv", ".jsonl", ".parquet")

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if self.path.suffix not in self.ENDINGS:
            known = ", ".join(self.ENDINGS)
            raise InputError(f"{path}: the ending {self.path.suffix!r} is unknown; use {known}.")
        if self.path.suffix == ".parquet":
            need("pyarrow.parquet", "parquet")
        self._open = ExitStack()
        self._file: IO[str] | None = None
        self._parquet: Any = None
        self._held: list[Any] = []  # tables with a column that is None so far: it has no type yet

    def __enter__(self) -> RowWriter:
        self._temporary = self._open.enter_context(atomic_path(self.path))
        if self.path.suffix != ".parquet":
            file = self._temporary.open("w", encoding="utf-8", newline="")
            self._file = self._open.enter_context(file)
        self._started = False
        return self

    def write(self, columns: Mapping[str, Iterable[Any]]) -> None:
        """Append rows given as columns of equal length; the names are the same in every call."""
        values = _lists(columns)
        if self._file is None:
            self._write_parquet(values)
        elif self.path.suffix == ".csv":
            self._write_csv(values, self._file)
        else:
            _write_json(values, self._file)
        self._started = True

    def _write_csv(self, values: dict[str, list[Any]], file: IO[str]) -> None:
        writer = csv.writer(file, lineterminator="\n")
        if not self._started:
            writer.writerow(map(quoted_cell, values))
        columns = [map(quoted_cell, column) for column in values.values()]
        writer.writerows(zip(*columns, strict=True))

    def _write_parquet(self, values: dict[str, list[Any]]) -> None:
        arrow = need("pyarrow", "parquet")
        self._held.append(arrow.table(values))
        known = arrow.concat_tables(self._held, promote_options="permissive").schema
        if self._parquet is not None or arrow.null() not in known.types:
            self._write_held()

    def _write_held(self) -> None:
        if not self._held:
            return
        table = need("pyarrow", "parquet").concat_tables(self._held, promote_options="permissive")
        self._held = []
        if self._parquet is None:
            parquet = need("pyarrow.parquet", "parquet")
            writer = parquet.ParquetWriter(self._temporary, table.schema)
            self._parquet = self._open.enter_context(writer)
        self._parquet.write_table(table.cast(self._parquet.schema))

    def __exit__(self, *exception: Any) -> bool | None:
        if exception[0] is None:
            try:
                self._write_held()
            except BaseException:
                self._open.__exit__(*sys.exc_info())
                raise
        # The last bytes are written here: a full disk shows before the temporary file is moved.
        return self._open.__exit__(*exception)


class RowPrinter:
    """A RowWriter's twin for standard output: writes rows as lines of JSON, each at once.

    The last line says how many there are: without it, whoever reads them knows that some are
    missing.

    >>> with RowPrinter() as printer:
    ...     printer.write({"row": [0, 1], "score": [0.5, 0.25]})
    {"row": 0, "score": 0.5}
    {"row": 1, "score": 0.25}
    {"end": 2}
    """

    def __init__(self) -> None:
        self._rows = 0

    def __enter__(self) -> RowPrinter:
        return self

    def write(self, columns: Mapping[str, Iterable[Any]]) -> None:
        """Write rows, given as columns of equal length, to standard output."""
        self._rows += _write_json(_lists(columns), sys.stdout)
        sys.stdout.flush()

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            print(json.dumps({"end": self._rows}), flush=True)


def _lists(columns: Mapping[str, Iterable[Any]]) -> dict[str, list[Any]]:
    return {name: np.asarray(column).tolist() for name, column in columns.items()}


def _write_json(values: dict[str, list[Any]], file: IO[str]) -> int:
    """Write rows as lines of JSON; return how many there are."""
    rows = list(zip(*values.values(), strict=True))
    for row in rows:
        record = json_values(dict(zip(values, row, strict=True)))
        file.write(json.dumps(record, allow_nan=False) + "\n")
    return len(rows)
