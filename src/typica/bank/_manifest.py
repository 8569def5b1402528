"""The manifest of a bank: what it holds, how much of it is whole, and the digests."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from typica.as_json import json_text
from typica.bank._files import HEADER, NAMES, OFFSETS, column_file
from typica.errors import FormatError, InputError
from typica.files import check_lock, reading, sync_folder
from typica.kinds import wrong_kind

FORMAT = 1
MANIFEST = "manifest.json"
MANIFEST_NEXT = "manifest.json.new"
_AGAIN = "delete the folder and write the bank again"


class Shard(NamedTuple):
    """Rows [start, stop) of a bank, the source rows done at its end, and its bytes' digest."""

    start: int
    stop: int
    source: int
    sha256: str


@dataclasses.dataclass
class Manifest:
    """What `manifest.json` holds. Bytes of a column beyond `rows` do not belong to the bank."""

    identity: dict[str, Any]
    settings: dict[str, Any]
    dtype: str
    shard_rows: int
    complete: bool = False
    rows: int = 0
    source_rows: int = 0
    columns: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    name_bytes: int | None = None
    classes: list[str] | None = None
    head: str | None = None
    skipped: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    shards: list[Shard] = dataclasses.field(default_factory=list)

    def text(self) -> str:
        """Return the document, its own checksum last."""
        body = {
            "bank": FORMAT,
            **dataclasses.asdict(self),
            "shards": [shard._asdict() for shard in self.shards],
        }
        return json.dumps({**body, "sha256": _checksum(body)}, indent=1, allow_nan=False) + "\n"

    def write(self, folder: Path, lock: int | None = None) -> None:
        """Replace the old manifest in one step, if the lock still holds.

        The new file has a fixed name, so that the next run overwrites what a killed run left.
        """
        if lock is not None:
            check_lock(folder, lock)
        with (folder / MANIFEST_NEXT).open("w", encoding="ascii", newline="\n") as file:
            file.write(self.text())
            file.flush()
            os.fsync(file.fileno())
        (folder / MANIFEST_NEXT).replace(folder / MANIFEST)
        sync_folder(folder)

    def dtype_of(self, column: str) -> np.dtype[Any]:
        dtype: np.dtype[Any] = np.dtype(self.columns[column]["dtype"])
        return dtype

    def shape_of(self, column: str) -> tuple[int, ...]:
        width = self.columns[column]["width"]
        return (self.rows,) if width is None else (self.rows, width)

    def sizes(self) -> dict[str, int]:
        """Return the size in bytes that each data file has at this point, by its name."""
        sizes = {}
        for column in self.columns:
            count = math.prod(self.shape_of(column))
            sizes[column_file(column)] = HEADER + count * self.dtype_of(column).itemsize
        if self.name_bytes is not None:
            sizes |= {NAMES: self.name_bytes, OFFSETS: HEADER + 8 * (self.rows + 1)}
        return sizes


def read_manifest(folder: Path) -> Manifest:
    """Return the checked manifest of a bank's folder."""
    document = _read_document(folder)
    _check_format(document, folder)
    del document["bank"], document["sha256"]
    with reading(folder, "the manifest makes no sense", _AGAIN):
        document["skipped"] = [(str(name), str(reason)) for name, reason in document["skipped"]]
        document["shards"] = [Shard(**shard) for shard in document["shards"]]
        manifest = Manifest(**document)
        _check_types(manifest)
    return manifest


def _read_document(folder: Path) -> Any:
    try:
        text = (folder / MANIFEST).read_text(encoding="ascii")
        document = json.loads(text)
        json_text(document)  # which refuses numbers that JSON does not have
    except FileNotFoundError:
        what = f"not a bank: it has no {MANIFEST}" if folder.exists() else "there is no such folder"
        raise FormatError(
            f"{folder}: {what}; pass a folder that `typica extract` or write_bank wrote."
        ) from None
    except NotADirectoryError:
        raise wrong_kind(folder, "a bank", "a bank is a folder, pass that") from None
    except OSError as error:
        raise FormatError(
            f"{folder}: {MANIFEST} cannot be read ({error.strerror}); pass a bank's folder."
        ) from None
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{folder}: the manifest is damaged ({error}); {_AGAIN}.") from None
    return document


def _check_format(document: Any, folder: Path) -> None:
    """Raise for a document that is not a bank's, has a later format, or a wrong checksum."""
    if not isinstance(document, dict) or not isinstance(document.get("bank"), int):
        raise FormatError(f"{folder}: {MANIFEST} does not describe a bank; pass a bank's folder.")
    if document["bank"] > FORMAT:
        raise FormatError(
            f"{folder}: written by a newer Typica (bank format {document['bank']}, "
            f"this one reads up to {FORMAT}); upgrade typica."
        )
    body = {key: value for key, value in document.items() if key != "sha256"}
    if document.get("sha256") != _checksum(body):
        raise FormatError(
            f"{folder}: the checksum of {MANIFEST} does not match, it was altered; {_AGAIN}."
        )


_TYPES: dict[str, Any] = {
    "identity": dict,
    "settings": dict,
    "dtype": str,
    "shard_rows": int,
    "complete": bool,
    "rows": int,
    "source_rows": int,
    "columns": dict,
    "name_bytes": int | None,
    "classes": list | None,
    "head": str | None,
}


def _check_types(manifest: Manifest) -> None:
    """Raise for values that no writer writes, even where the checksum is right."""
    for name, kind in _TYPES.items():
        value = getattr(manifest, name)
        if not isinstance(value, kind):
            raise TypeError(f"{name} is a {type(value).__name__}")
    if not all(isinstance(name, str) for name in manifest.classes or ()):
        raise TypeError("classes are not all texts")
    for name in manifest.columns:
        _check_column(manifest, name)
    _check_rows(manifest)


def _check_rows(manifest: Manifest) -> None:
    if manifest.rows < 0 or (manifest.rows and "features" not in manifest.columns):
        raise ValueError(f"{manifest.rows} rows without features")
    for shard in manifest.shards:
        if not 0 <= shard.start <= shard.stop <= manifest.rows:
            raise ValueError(f"a shard from {shard.start} to {shard.stop}")


def _check_column(manifest: Manifest, name: str) -> None:
    width, dtype = manifest.columns[name]["width"], manifest.columns[name]["dtype"]
    is_row = name == "labels"
    if not isinstance(dtype, str) or np.dtype(dtype).kind not in ("iU" if is_row else "f"):
        raise TypeError(f"{name} are of type {dtype!r}")
    if not (width is None if is_row else isinstance(width, int) and width > 0):
        raise TypeError(f"{name} have a width of {width!r}")


def checked_json(value: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Return a mapping as the manifest gives it back: tuples as lists, keys as strings."""
    try:
        return dict(json.loads(json_text(value)))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{what} cannot be stored ({error}); pass a dict of JSON values."
        ) from None


def _checksum(document: dict[str, Any]) -> str:
    return hashlib.sha256(json_text(document).encode()).hexdigest()
