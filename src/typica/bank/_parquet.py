"""Banks as Parquet: written a shard at a time, and what such a file says about its bank.

The columns are `features`, `logits` and `layer.NAME` (lists), `label` and `name`. What is not in
them, such as the network's head, is JSON under the schema's key `typica.bank`.
"""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from typica import store
from typica.arrays import AnyArray
from typica.as_json import json_text
from typica.bank._files import HEAD
from typica.bank._names import Names
from typica.bank._origin import origin_in
from typica.errors import InputError
from typica.extras import need
from typica.files import atomic_path, reading
from typica.head import Head
from typica.origin import Origin

if TYPE_CHECKING:
    from typica.bank._reader import Bank

KEY = b"typica.bank"
_MOST_NUMBERS = 2**31 - 1  # in a column of Arrow's lists, whose offsets have 32 bits


@dataclass(frozen=True)
class ParquetNotes:
    """What a Parquet file says about the bank that it was written from, beside the columns."""

    path: Path
    identity: dict[str, Any]
    settings: dict[str, Any]
    classes: list[str] | None
    head: Head | None

    @property
    def origin(self) -> Origin | None:
        """The network that made the features of an exported bank, or None if none did."""
        with reading(self.path, "its notes on the network make no sense"):
            return origin_in(self.identity, self.settings)


def write_parquet(bank: Bank, path: Path) -> None:
    """Write a bank to one Parquet file, which appears whole or not at all."""
    arrow, parquet = need("pyarrow", "parquet"), need("pyarrow.parquet", "parquet")
    schema = _schema(bank, arrow)
    with atomic_path(path) as temporary, parquet.ParquetWriter(temporary, schema) as writer:
        for rows in _row_groups(bank):
            table = arrow.table(_columns(bank, rows, schema, arrow), schema=schema)
            writer.write_table(table, row_group_size=len(table))


def _row_groups(bank: Bank) -> Iterator[slice]:
    """Yield the rows of each shard, in parts where a column of lists could not hold them all."""
    widths = [column.shape[1] for column in bank._columns.values() if column.ndim == 2]
    most = max(1, _MOST_NUMBERS // max(widths))
    for shard in bank._manifest.shards:
        for start in range(shard.start, shard.stop, most):
            yield slice(start, min(start + most, shard.stop))


def read_notes(path: Path) -> ParquetNotes | None:
    """Return what a Parquet file says about its bank; None where it was not written from one."""
    parquet = need("pyarrow.parquet", "parquet")
    with reading(path, "not a whole .parquet file"):
        metadata = parquet.read_schema(path).metadata or {}
    if KEY not in metadata:
        return None
    with reading(path, "its notes on the bank are damaged"):
        notes = json.loads(metadata[KEY])
        head = _decoded_head(notes["head_file"])
        _check_notes(notes)
        classes = notes["classes"]
        if head is not None:
            head = head.named(classes)
        return ParquetNotes(path, notes["identity"], notes["settings"], classes, head)


def _check_notes(notes: dict[str, Any]) -> None:
    for name, kind in (("identity", dict), ("settings", dict), ("classes", list | None)):
        if not isinstance(notes[name], kind):
            raise TypeError(f"{name} is a {type(notes[name]).__name__}")
    if not all(isinstance(name, str) for name in notes["classes"] or ()):
        raise TypeError("classes are not all texts")


def _schema(bank: Bank, arrow: Any) -> Any:
    """Return the types of the columns, with the notes."""
    manifest = bank._manifest
    fields = [
        (_name(column), _type(manifest.dtype_of(column), arrow)) for column in manifest.columns
    ]
    if bank.names is not None:
        text = arrow.string() if bank.names.are_unicode() else arrow.binary()
        fields.append(("name", text))
    notes = {
        "identity": bank.identity,
        "settings": bank.settings,
        "classes": bank.classes,
        "skipped": bank.skipped,
        "head_file": _encoded_head(bank),
    }
    return arrow.schema(fields, metadata={KEY: json_text(notes)})


def _type(dtype: np.dtype[Any], arrow: Any) -> Any:
    if dtype == np.float64:
        return arrow.list_(arrow.float64())
    if dtype.kind == "f":
        return arrow.list_(arrow.float32())
    if dtype.kind == "i":
        return arrow.int64()
    return arrow.string()


def _name(column: str) -> str:
    return "label" if column == "labels" else column


def _columns(bank: Bank, rows: slice, schema: Any, arrow: Any) -> dict[str, Any]:
    """Return rows of a bank as Arrow's columns."""
    columns = {}
    for column, values in bank._columns.items():
        columns[_name(column)] = _values(values[rows], arrow)
    if bank.names is not None:
        columns["name"] = _names(bank.names, rows, schema.field("name").type, arrow)
    return columns


def _values(rows: AnyArray, arrow: Any) -> Any:
    if rows.dtype.kind != "f":
        return arrow.array(rows.tolist())
    wide = rows.astype(np.float32) if rows.dtype == np.float16 else rows
    offsets = np.arange(len(rows) + 1, dtype=np.int32) * rows.shape[1]
    return arrow.ListArray.from_arrays(offsets, np.ascontiguousarray(wide).ravel())


def _names(names: Names, rows: slice, kind: Any, arrow: Any) -> Any:
    if kind == arrow.string():
        return arrow.array(names[rows], kind)
    return arrow.array([name.encode("utf-8", "surrogateescape") for name in names[rows]], kind)


def _encoded_head(bank: Bank) -> str | None:
    """Return the bytes of the head's file as text."""
    if bank.head is None:
        return None
    return base64.b64encode((bank.path / HEAD).read_bytes()).decode()


def _decoded_head(text: str | None) -> Head | None:
    if text is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / HEAD
        file.write_bytes(base64.b64decode(text))
        try:
            head = store.load(file)
        except InputError as error:  # which names a file that is gone
            raise ValueError("its head") from error
    if not isinstance(head, Head):
        raise TypeError(f"its head is a {type(head).__name__}")
    return head
