"""Batches of rows, each with its source and row number, which errors and keys refer to."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray, as_floating, check_finite
from typica.errors import InputError, about, argument, counted
from typica.extras import need
from typica.keys import row_keys
from typica.progress import note
from typica.scale._columns import Columns, take, without_embedding
from typica.scale._files import (
    CSV,
    IPC,
    IPC_STREAM,
    NO_VALUE,
    PARQUET,
    open_file,
    reading_table,
)
from typica.scale._parts import Part

BATCH_BYTES = 2**25  # of features that are read and worked on at a time
NAMED = 5  # skipped rows, in a message
_MOST_ROWS = 2**16
_PAGES = 2**20  # bytes of a column read at a time, so that no row group has to fit in memory


class Skipped(NamedTuple):
    """How many rows were skipped, as they have no whole embedding, and the first of them."""

    n: int = 0
    first: Sequence[str] = ()

    def joined(self, other: Skipped) -> Skipped:
        """Return these and others."""
        return Skipped(self.n + other.n, [*self.first, *other.first][:NAMED])

    def note(self) -> None:
        """Say which rows were skipped, if any were."""
        if self.n:
            rows = f"skipped: {counted(self.n, 'row')} without a whole embedding"
            more = " and others" if self.n > len(self.first) else ""
            note(f"{rows}: {'; '.join(self.first)}{more}")


@dataclass(frozen=True, eq=False)
class Batch:
    """Some rows of a data set.

    Parameters
    ----------
    features
        The rows (n, m).
    labels
        One label per row, or None.
    ids
        An Arrow array of ids, or None.
    source
        What they are rows of: a file's path within the data set.
    start
        The number of the first row in the source.
    name
        What messages call the source.
    left_out
        The places, from `start` on, of rows without a whole embedding: there are ids for them, and
        nothing else.
    """

    features: AnyArray
    labels: AnyArray | None = None
    ids: Any = None
    source: str = ""
    start: int = 0
    name: str = ""
    left_out: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    def __len__(self) -> int:
        return len(self.features)

    @property
    def read(self) -> int:
        """How many rows there are, with those that are left out."""
        return len(self) + len(self.left_out)

    @property
    def skipped(self) -> Skipped:
        """The rows that are left out."""
        first = self.left_out[:NAMED].tolist()
        name = self.name or self.source
        named = [f"{name}, row {self.start + place}".lstrip(", ") for place in first]
        return Skipped(len(self.left_out), named)

    def keys(self, salt: str = "") -> NDArray[np.uint64]:
        """Return each row's key, a hash of its source and number, however rows are split."""
        return np.delete(row_keys(salt + self.source, self.start, self.read), self.left_out)

    def share(self, share: float, salt: str = "") -> Batch:
        """Return a share of the rows, drawn at random by their keys."""
        if share >= 1:
            return self
        chosen = np.flatnonzero(self.keys(salt) < np.uint64(share * 2.0**64))
        labels = None if self.labels is None else self.labels[chosen]
        return Batch(self.features[chosen], labels, None, self.source, self.start, self.name)

    def check(self) -> None:
        """Refuse a row that is not finite."""
        try:
            check_finite(as_floating(self.features), self.start)
        except InputError as error:
            skip = f", or pass {argument('on_error', 'skip')}."
            error.args = (error.args[0].removesuffix(".") + skip,)
            raise

    @contextlib.contextmanager
    def blamed(self) -> Iterator[None]:
        """Put the file and the row at the beginning of an input error's message in the block."""
        try:
            yield
        except InputError as error:
            with _about(self.name):
                self.check()
            if self.name:
                stop = self.start + self.read
                error.args = (f"{self.name}, rows {self.start} to {stop - 1}: {error.args[0]}",)
            raise


def _about(name: str) -> contextlib.AbstractContextManager[None]:
    return about(name) if name else contextlib.nullcontext()


def read_part(part: Part, columns: Columns, labels: AnyArray | None = None) -> Iterator[Batch]:
    """Yield the rows of a part, some at a time, in order.

    labels: one for each row of the part, if no column has them.
    """
    records, name = _records(part, columns), part.file.path
    return read_records(records, columns, part.source, part.start, name=name, labels=labels)


def read_batch(
    record: Any, columns: Columns, source: str = "", start: int = 0, name: str = ""
) -> Batch:
    """Return the rows of an Arrow record batch.

    Parameters
    ----------
    record
        The Arrow record batch.
    columns
        Which of its columns to read.
    source, start
        Its first row is row `start` of `source`.
    name
        What messages call the source.
    """
    numbers: Any = range(start, start + len(record))
    whole = record
    left_out = np.empty(0, np.int64)
    if columns.skip:
        bad = without_embedding(record, columns)
        left_out = np.flatnonzero(bad)
        if len(left_out):
            whole = record.filter(need("pyarrow", "parquet").array(~bad))
            numbers = start + np.flatnonzero(~bad)
    with _about(name):
        features, labels, _ = take(whole, columns, numbers)
    ids = None if columns.ids is None else record.column(columns.ids)
    return Batch(features, labels, ids, source, start, name, left_out)


def _records(part: Part, columns: Columns) -> Iterator[Any]:
    """Yield the record batches of a part, with the values in its folder names as columns."""
    constants = dict(part.file.constants)
    stored = [name for name in columns.names if name not in constants]
    for record in _READERS[part.file.format](part, stored, columns):
        whole = record
        for name in columns.names:
            if name in constants:
                whole = whole.append_column(name, _repeated(constants[name], len(record)))
        yield whole


def _repeated(value: str | int, rows: int) -> Any:
    arrow = need("pyarrow", "parquet")
    if value == NO_VALUE:
        return arrow.nulls(rows, arrow.string())
    return arrow.repeat(value, rows)


def _parquet_records(part: Part, names: list[str], _: Columns) -> Iterator[Any]:
    parquet = need("pyarrow.parquet", "parquet")
    groups = range(*(part.groups or (0, 0)))
    with reading_table(part.file), open_file(part.file.path) as opened:
        file = parquet.ParquetFile(opened, pre_buffer=False, buffer_size=_PAGES)
        size = batch_rows(part.row_bytes)
        yield from file.iter_batches(size, row_groups=groups, columns=names)


def _ipc_records(part: Part, names: list[str], _: Columns) -> Iterator[Any]:
    with reading_table(part.file), open_file(part.file.path) as opened:
        reader = need("pyarrow.ipc", "parquet").open_file(opened)
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number).select(names)


def _ipc_stream_records(part: Part, names: list[str], _: Columns) -> Iterator[Any]:
    with reading_table(part.file), open_file(part.file.path) as opened:
        for record in need("pyarrow.ipc", "parquet").open_stream(opened):
            yield record.select(names)


def _csv_records(part: Part, names: list[str], columns: Columns) -> Iterator[Any]:
    arrow, csv = need("pyarrow", "parquet"), need("pyarrow.csv", "parquet")
    types = dict.fromkeys(columns.numbers, arrow.float64())
    if columns.ids is not None:
        types[columns.ids] = arrow.string()
    convert = csv.ConvertOptions(include_columns=names, column_types=types)
    with reading_table(part.file), open_file(part.file.path) as opened:
        for record in csv.open_csv(opened, convert_options=convert):
            yield _without_empty(record, columns.labels)


def _without_empty(record: Any, labels: str | None) -> Any:
    """Return a record batch of CSV with null for labels that are not there: "" is no class."""
    if labels not in record.schema.names or record.column(labels).type != "string":
        return record
    arrow, compute = need("pyarrow", "parquet"), need("pyarrow.compute", "parquet")
    known = record.column(labels)
    whole = compute.if_else(compute.equal(known, ""), arrow.scalar(None, known.type), known)
    return record.set_column(record.schema.get_field_index(labels), labels, whole)


_READERS: dict[str, Callable[[Part, list[str], Columns], Iterator[Any]]] = {
    PARQUET: _parquet_records,
    IPC: _ipc_records,
    IPC_STREAM: _ipc_stream_records,
    CSV: _csv_records,
}


def array_batches(
    Z: AnyArray,
    labels: AnyArray | None = None,
    source: str = "",
    start: int = 0,
    *,
    skip: bool = False,
) -> Iterator[Batch]:
    """Yield the rows of an array in pieces, the first of which is row `start` of `source`.

    skip: leave out rows that are not finite.

    >>> [len(batch) for batch in array_batches(np.zeros((5, 3)))]
    [5]
    """
    step = batch_rows(Z.shape[1] * Z.itemsize)
    for first in range(0, len(Z), step):
        some = None if labels is None else labels[first : first + step]
        batch = Batch(Z[first : first + step], some, None, source, start + first)
        yield _finite(batch) if skip else batch


def _finite(batch: Batch) -> Batch:
    """Return the batch without the rows that are not finite."""
    left_out = np.flatnonzero(~np.isfinite(batch.features).all(axis=1))
    labels = None if batch.labels is None else np.delete(batch.labels, left_out)
    features = np.delete(batch.features, left_out, axis=0)
    return replace(batch, features=features, labels=labels, left_out=left_out)


def read_records(
    records: Iterable[Any],
    columns: Columns,
    source: str = "",
    start: int = 0,
    *,
    name: str = "",
    labels: AnyArray | None = None,
) -> Iterator[Batch]:
    """Yield the rows of record batches in pieces, the first of which is row `start` of `source`.

    labels: one for each row, if no column has them.
    """
    first = 0
    for record in records:
        for piece in _sliced(record.select(columns.names)):
            found = read_batch(piece, columns, source, start + first, name)
            if labels is not None:
                known = np.delete(labels[first : first + found.read], found.left_out)
                found = replace(found, labels=known)
            first += found.read
            yield found


def _sliced(record: Any) -> Iterator[Any]:
    """Yield a record batch in pieces of at most about `BATCH_BYTES`; nothing if it is empty."""
    rows = len(record)
    if not rows:
        return
    step = batch_rows(-(-record.nbytes // rows))
    for start in range(0, rows, step):
        yield record.slice(start, step)


def batch_rows(row_bytes: int) -> int:
    """Return how many rows to read at a time."""
    return max(1, min(_MOST_ROWS, BATCH_BYTES // max(1, row_bytes)))
