"""An open data set: files as parts, or an object that gives Arrow batches one by one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from typica.arrays import AnyArray
from typica.data import names_file, read_labels
from typica.errors import InputError, about, border, counted, given
from typica.extras import need
from typica.labels import as_labels
from typica.scale._arrow_objects import is_repeatable, reader_of
from typica.scale._batches import Batch, read_part, read_records
from typica.scale._columns import (
    Columns,
    Wanted,
    check_ids,
    check_schema,
    check_width,
    opened_columns,
    schema_width,
)
from typica.scale._files import find_files
from typica.scale._parts import PART_BYTES, Outline, Part, cut, outline_files

Data = Any  # a path, a pattern, a folder, an address, several of them, or an Arrow object


@dataclass(frozen=True)
class Tables:
    """A data set of files: its parts in order, and the columns to read from each.

    schema: that of the first file. labels: one for each row of the data set, if they come from a
    file of their own.
    """

    parts: tuple[Part, ...]
    columns: Columns
    schema: Any
    labels: AnyArray | None = None

    @property
    def rows(self) -> int | None:
        """How many rows there are; None if a file does not say."""
        counts = [part.rows for part in self.parts]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    @property
    def width(self) -> int | None:
        """How many features a row has, if the schema tells."""
        return schema_width(self.schema, self.columns)

    is_repeatable = True  # the rows can be read a second time

    @property
    def id_field(self) -> tuple[str, Any] | None:
        """The name and the Arrow type of the column of ids, as `Judge` takes them."""
        return field_of(self.schema, self.columns.ids)

    def read(self, part: Part) -> Iterator[Batch]:
        """Yield the batches of a part."""
        return read_part(part, self.columns, self.labels_of(part))

    def labels_of(self, part: Part) -> AnyArray | None:
        """Return the labels of a part's rows, if they come from a file of their own."""
        if self.labels is None or part.first is None or part.rows is None:
            return None
        return self.labels[part.first : part.first + part.rows]

    def batches(self) -> Iterator[Batch]:
        """Yield all batches in order."""
        for part in self.parts:
            yield from self.read(part)


class Stream:
    """An object that gives Arrow batches: from polars, DuckDB, datasets, pyarrow and others.

    name: what keys and messages call the source of its rows.
    """

    def __init__(self, source: Any, name: str = "") -> None:
        self.source = source
        self.name = name
        self.is_repeatable = is_repeatable(source)
        self._reader = reader_of(source)  # a source that gives its rows only once gives them here
        self.schema = self._reader.schema
        self.columns = Columns("")

    @property
    def rows(self) -> int | None:
        """How many rows there are, if the object says."""
        found = getattr(self.source, "num_rows", None)
        return found if isinstance(found, int) else None

    @property
    def width(self) -> int | None:
        """How many features a row has, if the schema tells."""
        return schema_width(self.schema, self.columns)

    @property
    def id_field(self) -> tuple[str, Any] | None:
        """The name and the Arrow type of the column of ids, as `Judge` takes them."""
        return field_of(self.schema, self.columns.ids)

    def batches(self) -> Iterator[Batch]:
        """Yield all batches in order."""
        return read_records(self._records(), self.columns, self.name, name=self.name)

    def _records(self) -> Any:
        reader, self._reader = self._reader, None
        if reader is not None:
            return reader
        if not self.is_repeatable:
            raise InputError("the stream was read to its end; pass one that can be read again.")
        return reader_of(self.source)


_WITHOUT_VIEWS: dict[str, Callable[[Any], Any]] = {
    "string_view": lambda arrow: arrow.string(),
    "binary_view": lambda arrow: arrow.binary(),
}


def field_of(schema: Any, name: str | None) -> tuple[str, Any] | None:
    """Return the name and the type of a column; one from the names of folders is a string."""
    if name is None:
        return None
    if name not in schema.names:
        return name, need("pyarrow", "parquet").string()
    kind = schema.field(name).type
    # Views are of no use outside memory, and few file readers know them.
    return name, _WITHOUT_VIEWS.get(str(kind), lambda arrow: kind)(need("pyarrow", "parquet"))


@border
def open_tables(
    data: Data,
    *,
    features: str | None = None,
    columns: Sequence[str] | None = None,
    labels: Any = None,
    ids: str | None = None,
    width: int | None = None,
    part_bytes: int = PART_BYTES,
    find_labels: bool = False,
    names: Sequence[str] | None = None,
    on_error: str = "stop",
) -> Tables | Stream:
    """Open a data set, and say what is wrong with it before any of its rows is read.

    Parameters
    ----------
    data
        A Parquet, Arrow or CSV file, a pattern (`embeddings/*.parquet`), a folder of Parquet or
        Arrow files, an address that fsspec knows, several of these, or an object with
        `__arrow_c_stream__`. Tables that are open already are returned unchanged.
    features
        The column of lists that holds the features; None uses the columns that the detector was
        fitted on if those have names, or else the column `features`, or the only column of lists.
    columns
        One column for each feature, instead of `features`; `f*` stands for all that match.
    labels
        A column, a file, or an array with one label per row.
    ids
        A column to pass on; of CSV as text, as it is written.
    width
        How many features a row must have.
    part_bytes
        About how large parts are.
    find_labels
        Use a column `label`, if no labels are given.
    names
        The names of the columns that a detector was fitted on: `columns` are then read by name, in
        this order, and others are left aside.
    on_error
        What to do at a row without a whole embedding, which is null, or holds null, NaN or
        infinity: "stop", or "skip" it.
    """
    wanted = Wanted(features, columns, labels, ids, find_labels, names, on_error)
    if isinstance(data, Tables | Stream):
        return _opened_before(data, wanted, width)
    if not isinstance(data, str | os.PathLike | Sequence):
        return _open_stream(data, wanted, width)
    outlines = outline_files(find_files(data))
    first = outlines[0]
    given = _given_labels(labels, {*first.schema.names, *_constants(first)})
    if given is not None:
        wanted = replace(wanted, labels=given, find_labels=False)
    with about(first.file.path):
        chosen = replace(wanted.found_in(first.schema, _constants(first)), width=width)
    outlines = [outline.with_text(chosen.ids) for outline in outlines]
    _check_all(outlines, chosen, width)
    opened = Tables(tuple(cut(outlines, part_bytes)), chosen, outlines[0].schema, given)
    with about(str(labels)) if isinstance(labels, str | os.PathLike) else nullcontext():
        _check_labels(opened)
    return opened


def _given_labels(labels: Any, columns: set[str]) -> AnyArray | None:
    """Return the labels of tables that are not in a column of theirs: an array, or a file."""
    if labels is None:
        return None
    if not isinstance(labels, str | os.PathLike):
        if np.ndim(labels) == 0:
            raise InputError(f"{given('labels', labels)}: pass a column, or one label per row.")
        return as_labels(labels)
    return read_labels(labels) if names_file(os.fspath(labels), columns) else None


def _constants(outline: Outline) -> list[str]:
    """Return the columns of a table that are in the path of its file."""
    return [name for name, _ in outline.file.constants]


def _check_all(outlines: list[Outline], columns: Columns, width: int | None) -> None:
    expected = width
    first_ids = None
    for outline in outlines:
        with about(outline.file.path):
            check_schema(outline.schema, columns, _constants(outline))
            check_width(outline.schema, columns, expected)
            first_ids = first_ids or field_of(outline.schema, columns.ids)
            check_ids(outline.schema, columns.ids, first_ids and first_ids[1])
        expected = expected or schema_width(outline.schema, columns)


def _check_labels(tables: Tables) -> None:
    if tables.labels is None:
        return
    if tables.rows is None:
        raise InputError(
            "labels are in a file of their own, and the tables do not say how many rows they "
            "have; write the tables as Parquet, or the labels into a column."
        )
    if len(tables.labels) != tables.rows:
        raise InputError(
            f"{counted(len(tables.labels), 'label')} for {counted(tables.rows, 'row')}; "
            "one per row is needed."
        )


def _opened_before(opened: Tables | Stream, wanted: Wanted, width: int | None) -> Tables | Stream:
    """Return what is open already; refuse columns other than those it was opened with."""
    known = opened.columns
    named = (wanted.features, wanted.columns, wanted.labels)
    others = wanted.ids not in (None, known.ids) or (wanted.on_error == "skip" and not known.skip)
    if others or any(name is not None for name in named):
        raise InputError(
            "these tables are open already; pass their columns and on_error to open_tables."
        )
    check_width(opened.schema, known, width)
    if not isinstance(known.features, str) and wanted.in_order(known.features) != known.features:
        raise InputError(
            "these tables are open with columns in another order than the detector was fitted on; "
            "pass columns in that order to open_tables."
        )
    return opened


def _open_stream(data: Any, wanted: Wanted, width: int | None) -> Stream:
    if wanted.labels is not None and not isinstance(wanted.labels, str):
        raise InputError("labels of an Arrow object are one of its columns; pass its name.")
    opened = Stream(data)
    opened.columns = opened_columns(opened.schema, wanted, width)
    return opened
