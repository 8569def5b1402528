"""Banks to Parquet and back, a row group a shard, so that neither side holds more than a shard in memory."""

from __future__ import annotations

import base64
import dataclasses
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica import store
from typica.bank._files import Manifest, Shard, canonical
from typica.bank._reader import Bank
from typica.bank._writer import BankWriter
from typica.data.features import _pyarrow
from typica.errors import FormatError, InputError
from typica.files import atomic_path
from typica.head import Head

KEY = b"typica.bank"


def write_parquet(bank: Bank, path: Path) -> None:
    """Write a bank to one Parquet file, which appears whole or not at all."""
    arrow, parquet = _pyarrow("pyarrow"), _pyarrow("pyarrow.parquet")
    manifest = bank._manifest
    types = {
        _column(name): _arrow_type(arrow, manifest.dtype_of(name)) for name in manifest.columns
    }
    if bank.names is not None:
        types["name"] = arrow.string() if bank.names.are_unicode() else arrow.binary()
    schema = arrow.schema(list(types.items()), metadata={KEY: _metadata(bank)})
    with atomic_path(path) as temporary, parquet.ParquetWriter(temporary, schema) as writer:
        for shard in manifest.shards:
            if shard.stop == shard.start:
                continue
            rows = slice(shard.start, shard.stop)
            columns = {
                _column(name): _to_arrow(arrow, column[rows])
                for name, column in bank._columns.items()
            }
            if bank.names is not None:
                names: list[Any] = bank.names[rows]
                if types["name"] == arrow.binary():
                    names = [name.encode("utf-8", "surrogateescape") for name in names]
                columns["name"] = arrow.array(names, types["name"])
            writer.write_table(
                arrow.table(columns, schema=schema), row_group_size=shard.stop - shard.start
            )


def read_parquet(path: Path, out: Path) -> Bank:
    """Write the bank in a Parquet file of `write_parquet` to a folder, which may hold a part or all of it already."""
    file = _opened(path)
    known = _known(path, file)
    if known is None:
        raise FormatError(
            f"{path}: not a bank's Parquet file; read it with typica.data.features.read_features and use write_bank."
        )
    manifest, head = known
    with BankWriter(
        out,
        manifest.identity,
        settings=manifest.settings,
        dtype=manifest.dtype,
        shard_rows=manifest.shard_rows,
    ) as writer:
        there = dataclasses.replace(
            writer._manifest, shard_rows=manifest.shard_rows
        )  # of what is in, it says nothing
        if not (there == manifest if writer.complete else _is_part(there, manifest)):
            raise InputError(
                f"{out}: holds a bank of other data; choose another folder, or delete this one."
            )
        skipped = manifest.skipped[len(there.skipped) :]
        groups = iter(range(file.num_row_groups))
        source = 0
        for number, shard in enumerate(manifest.shards):
            table = file.read_row_group(next(groups)) if shard.stop > shard.start else None
            before, source = source, shard.source
            if writer.done >= source:
                continue
            last = number == len(manifest.shards) - 1
            writer.write(
                {} if table is None else _columns_of(table, manifest),
                None if table is None or manifest.name_bytes is None else _names_of(table),
                source - before,
                skipped if last else (),
            )
        bank = writer.finish(head, manifest.classes)
    if bank._manifest.shards != manifest.shards:
        raise FormatError(
            f"{path}: its rows do not match its checksums, it was altered; delete {out} and write the file again."
        )
    return bank


class ParquetBank(Bank):
    """What a Parquet file of `write_parquet` says of its bank: all but the columns and names."""

    def __init__(self, path: Path, manifest: Manifest, head: Head | None) -> None:
        self.path = path
        self._manifest = manifest
        self.identity, self.settings, self.classes = (
            manifest.identity,
            manifest.settings,
            manifest.classes,
        )
        self.head = head


def parquet_bank(path: Path) -> ParquetBank | None:
    """Return what a Parquet file says of the bank that it was written from; None where it is no bank's."""
    known = _known(path, _opened(path))
    return None if known is None else ParquetBank(path, *known)


def _opened(path: Path) -> Any:
    arrow, parquet = _pyarrow("pyarrow"), _pyarrow("pyarrow.parquet")
    try:
        return parquet.ParquetFile(path)
    except (arrow.ArrowException, OSError) as error:
        raise FormatError(f"{path}: not a whole .parquet file ({error}); write it again.") from None


def _known(path: Path, file: Any) -> tuple[Manifest, Head | None] | None:
    text = (file.schema_arrow.metadata or {}).get(KEY)
    if text is None:
        return None
    try:
        document = json.loads(text)
        head = _head_of(document.pop("head_file"))
        document["shards"] = [Shard(**shard) for shard in document["shards"]]
        document["skipped"] = [(name, reason) for name, reason in document["skipped"]]
        return Manifest(**document), head
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise FormatError(
            f"{path}: what it says of its bank is damaged ({error}); write it again."
        ) from None


def _is_part(there: Manifest, whole: Manifest) -> bool:
    """Tell whether an unfinished bank is the beginning of another."""
    return (
        there.settings == whole.settings
        and there.shards == whole.shards[: len(there.shards)]
        and there.skipped == whole.skipped[: len(there.skipped)]
        and there.columns in ({}, whole.columns)
    )


def _column(name: str) -> str:
    return "label" if name == "labels" else name


def _arrow_type(arrow: Any, dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "f":
        return arrow.list_(arrow.float64() if dtype.itemsize == 8 else arrow.float32())
    return arrow.int64() if dtype.kind == "i" else arrow.string()


def _to_arrow(arrow: Any, part: NDArray[Any]) -> Any:
    if part.dtype.kind != "f":
        return arrow.array(part.tolist())
    values = np.ascontiguousarray(
        part, dtype=np.float32 if part.dtype == np.float16 else part.dtype
    )
    offsets = np.arange(len(part) + 1, dtype=np.int32) * part.shape[1]
    return arrow.ListArray.from_arrays(offsets, values.ravel())


def _columns_of(table: Any, manifest: Manifest) -> dict[str, NDArray[Any]]:
    columns = {}
    for name, entry in manifest.columns.items():
        column = table.column(_column(name)).combine_chunks()
        if entry["width"] is None:
            columns[name] = np.array(column.to_pylist(), dtype=entry["dtype"])
        else:
            columns[name] = column.flatten().to_numpy().reshape(len(column), entry["width"])
    return columns


def _names_of(table: Any) -> list[str]:
    names = table.column("name").to_pylist()
    return [
        name if isinstance(name, str) else name.decode("utf-8", "surrogateescape") for name in names
    ]


def _metadata(bank: Bank) -> str:
    """Return all of a bank that is not in its columns, its head as the bytes of its file."""
    manifest = bank._manifest
    document = {key: value for key, value in vars(manifest).items() if key != "shards"}
    document["shards"] = [shard._asdict() for shard in manifest.shards]
    head = (
        None
        if bank.head is None
        else base64.b64encode((bank.path / "head.safetensors").read_bytes()).decode()
    )
    return canonical({**document, "head_file": head})


def _head_of(encoded: str | None) -> Any:
    if encoded is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "head.safetensors"
        file.write_bytes(base64.b64decode(encoded))
        return store.load(file)
