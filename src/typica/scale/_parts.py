"""A data set as numbered parts: runs of rows of one file that one worker reads by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, NamedTuple

from typica.bombs import parquet_ends, parquet_sizes
from typica.errors import FormatError
from typica.extras import need
from typica.scale._files import CSV, IPC, IPC_STREAM, PARQUET, File, open_file, reading_table
from typica.threads import in_threads

PART_BYTES = 2**28  # of the columns that are read, unpacked; a larger row group is a part by itself
OPENED_AT_ONCE = 16  # files whose ends are read in parallel: most of the time is latency
_VALUE = 4  # the fewest bytes that a number is likely to take


@dataclass(frozen=True)
class Part:
    """Rows of one file, for one worker.

    Parameters
    ----------
    number
        Its place among all parts.
    file
        Where the rows are.
    groups
        The first row group of a Parquet file, and the one after the last; None for the whole file.
    start, first
        The number of its first row within the file, and within the data set.
    rows
        How many rows, None if that is not known.
    row_bytes
        About how many bytes a row takes in memory.
    """

    number: int
    file: File
    groups: tuple[int, int] | None
    start: int
    rows: int | None
    first: int | None = None
    row_bytes: int = 4096

    @property
    def source(self) -> str:
        """The file's path within the data set."""
        return self.file.source


class Group(NamedTuple):
    """A run of rows that is read as a whole, and its size in bytes."""

    rows: int
    size: int


@dataclass(frozen=True)
class Outline:
    """What the end of a table's file says: its schema, and its row groups if it has any."""

    file: File
    schema: Any
    groups: tuple[Group, ...] | None
    rows: int | None

    def with_text(self, ids: str | None) -> Outline:
        """Return the outline with the ids of a CSV file as text: 007 is not 7."""
        if self.file.format != CSV or self.schema.names.count(ids) != 1:
            return self
        arrow = need("pyarrow", "parquet")
        place = self.schema.get_field_index(ids)
        return replace(self, schema=self.schema.set(place, arrow.field(ids, arrow.string())))


def outline_files(files: Sequence[File]) -> list[Outline]:
    """Return what the ends of tables' files say; the error of an unreadable one names it."""
    return list(in_threads(_outline, files, min(len(files), OPENED_AT_ONCE)))


def _outline(file: File) -> Outline:
    with reading_table(file):
        return _OUTLINES[file.format](file)


def _outline_parquet(file: File) -> Outline:
    with open_file(file.path) as opened:
        found = parquet_ends(opened)
        metadata, schema = found.metadata, found.schema_arrow
        # Values that are all equal take almost no room in the file.
        sizes = parquet_sizes(found, _VALUE)
    counts = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    return Outline(file, schema, tuple(map(Group, counts, sizes)), metadata.num_rows)


def _outline_ipc(file: File) -> Outline:
    with open_file(file.path) as opened:
        reader = need("pyarrow.ipc", "parquet").open_file(opened)
        return Outline(file, reader.schema, None, _count_rows(reader))


def _count_rows(reader: Any) -> int:
    if hasattr(reader, "count_rows"):
        return int(reader.count_rows())
    return sum(reader.get_batch(i).num_rows for i in range(reader.num_record_batches))


def _outline_ipc_stream(file: File) -> Outline:
    with open_file(file.path) as opened:
        return Outline(file, need("pyarrow.ipc", "parquet").open_stream(opened).schema, None, None)


def _outline_csv(file: File) -> Outline:
    with open_file(file.path) as opened:
        schema = need("pyarrow.csv", "parquet").open_csv(opened).schema
    if _are_numbers(schema.names):
        raise FormatError(
            f"{file.path}: has no header, so that its first row would be lost; write one, or leave "
            "out what is for tables alone."
        )
    return Outline(file, schema, None, None)


def _are_numbers(names: list[str]) -> bool:
    """Tell whether a first line is of numbers, and not 0, 1, 2, as pandas calls columns."""
    try:
        numbers = [float(name or 0) for name in names]
    except ValueError:
        return False
    return numbers != [*range(len(names))]


_OUTLINES: dict[str, Callable[[File], Outline]] = {
    PARQUET: _outline_parquet,
    IPC: _outline_ipc,
    IPC_STREAM: _outline_ipc_stream,
    CSV: _outline_csv,
}


def cut(outlines: Iterable[Outline], size: int = PART_BYTES) -> list[Part]:
    """Return the parts of a data set: row groups of a file, joined up to `size` bytes."""
    parts: list[Part] = []
    first: int | None = 0
    for outline in outlines:
        for part in _parts_of(outline, size):
            begins = None if first is None else first + part.start
            parts.append(replace(part, number=len(parts), first=begins))
        first = None if first is None or outline.rows is None else first + outline.rows
    return parts


def _parts_of(outline: Outline, size: int) -> Iterator[Part]:
    if outline.groups is None:
        yield Part(0, outline.file, None, 0, outline.rows)
        return
    starts = [0, *accumulate(group.rows for group in outline.groups)]
    for begin, end in _runs(outline.groups, size):
        rows = starts[end] - starts[begin]
        if rows:
            total = sum(group.size for group in outline.groups[begin:end])
            row_bytes = -(-total // rows)
            yield Part(0, outline.file, (begin, end), starts[begin], rows, None, row_bytes)


def _runs(groups: Sequence[Group], size: int) -> Iterator[tuple[int, int]]:
    """Yield the first group of each part, and the one after its last.

    >>> list(_runs([Group(9, 40), Group(9, 40), Group(9, 90), Group(9, 10)], 100))
    [(0, 2), (2, 4)]
    """
    begin, held = 0, 0
    for place, group in enumerate(groups):
        if held and held + group.size > size:
            yield begin, place
            begin, held = place, 0
        held += group.size
    if begin < len(groups):
        yield begin, len(groups)
