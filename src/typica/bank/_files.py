"""The files of a bank: its manifest, columns that grow at their end, and names."""

from __future__ import annotations

import codecs
import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, overload
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray
from typica.errors import FormatError, InputError
from typica.files import check_lock, reading, sync_folder
from typica.kinds import wrong_kind

FORMAT = 1
MANIFEST = "manifest.json"
MANIFEST_NEXT = "manifest.json.new"
HEAD = "head.safetensors"
NAMES = "names.bin"
OFFSETS = "names.offsets.npy"
HEADER = 128  # bytes; room for any shape: a header is rewritten when the number of rows is known


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
        """Put the manifest in the place of the old one at a stroke, if the lock still holds.

        The name of the new one is fixed: a run that is killed here leaves nothing that the next
        one does not write over.
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
            count = int(np.prod(self.shape_of(column), dtype=np.int64))
            sizes[column_file(column)] = HEADER + count * self.dtype_of(column).itemsize
        if self.name_bytes is not None:
            sizes |= {NAMES: self.name_bytes, OFFSETS: HEADER + 8 * (self.rows + 1)}
        return sizes


def read_manifest(folder: Path) -> Manifest:
    """Return the checked manifest of a bank's folder."""
    again = "delete the folder and write the bank again"
    try:
        text = (folder / MANIFEST).read_text(encoding="ascii")
        document = json.loads(text)
        canonical(document)  # which refuses numbers that JSON does not have
    except FileNotFoundError:
        what = f"not a bank: it has no {MANIFEST}" if folder.exists() else "there is no such folder"
        raise FormatError(
            f"{folder}: {what}; pass a folder that `typica extract` or write_bank wrote."
        ) from None
    except NotADirectoryError:
        raise wrong_kind(folder, "a bank", "a bank is a folder, pass that") from None
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{folder}: the manifest is damaged ({error}); {again}.") from None
    if not isinstance(document, dict) or not isinstance(document.get("bank"), int):
        raise FormatError(
            f"{folder}: {MANIFEST} is of something else than a bank; pass a bank's folder."
        )
    if document["bank"] > FORMAT:
        raise FormatError(
            f"{folder}: written by a newer Typica (bank format {document['bank']}, "
            f"this one reads up to {FORMAT}); upgrade typica."
        )
    if document.pop("sha256", None) != _checksum(document):
        raise FormatError(
            f"{folder}: the checksum of {MANIFEST} does not match, it was altered; {again}."
        )
    del document["bank"]
    with reading(folder, "the manifest makes no sense", again):
        document["skipped"] = [(str(name), str(reason)) for name, reason in document["skipped"]]
        document["shards"] = [Shard(**shard) for shard in document["shards"]]
        manifest = Manifest(**document)
        _check_types(manifest)
    return manifest


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
    """Raise for what no writer writes, but somebody who knows how checksums are made."""
    for name, kind in _TYPES.items():
        value = getattr(manifest, name)
        if not isinstance(value, kind):
            raise TypeError(f"{name} is a {type(value).__name__}")
    if not all(isinstance(name, str) for name in manifest.classes or ()):
        raise TypeError("classes are not all texts")
    if manifest.rows < 0 or (manifest.rows and "features" not in manifest.columns):
        raise ValueError(f"{manifest.rows} rows without features")
    for name in manifest.columns:
        _check_column(manifest, name)
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


def is_bank(folder: Path) -> bool:
    """Tell whether a folder is a bank's, finished or not."""
    try:
        with (folder / MANIFEST).open("rb") as file:
            return file.read(9) == b'{\n "bank"'
    except OSError:
        return False


def canonical(value: Any) -> str:
    """Return the one JSON text of a value; what JSON does not have, NaN included, is an error."""
    return json.dumps(value, sort_keys=True, allow_nan=False, separators=(",", ":"))


def checked_json(value: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Return a mapping as the manifest gives it back: tuples as lists, keys as strings."""
    try:
        return dict(json.loads(canonical(value)))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{what} cannot be stored ({error}); pass a dict of JSON values."
        ) from None


def _checksum(document: dict[str, Any]) -> str:
    return hashlib.sha256(canonical(document).encode()).hexdigest()


def column_file(column: str) -> str:
    """Return the file of a column; a layer's name may hold anything.

    >>> column_file("features"), column_file("layer.block/3")
    ('features.npy', 'layer.block%2F3.npy')
    """
    return f"{quote(column, safe='')}.npy"


def npy_header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """Return an .npy header (version 1.0, C order) of exactly HEADER bytes.

    >>> len(npy_header(np.dtype("<f4"), (10_000_000_000, 65_536)))
    128
    """
    text = str({"descr": dtype.str, "fortran_order": False, "shape": shape})
    length = HEADER - 10
    padded = text.ljust(length - 1).encode("ascii")
    return b"\x93NUMPY\x01\x00" + length.to_bytes(2, "little") + padded + b"\n"


def mapped_column(folder: Path, name: str, manifest: Manifest) -> AnyArray:
    """Return a column of a finished bank, memory-mapped."""
    file = folder / column_file(name)
    column = _mapped(file)
    dtype, shape = manifest.dtype_of(name), manifest.shape_of(name)
    if (column.dtype, column.shape) != (dtype, shape):
        raise FormatError(
            f"{file}: {column.dtype} of shape {column.shape}, "
            f"the manifest says {dtype} of shape {shape}; write the bank again."
        )
    return column


def _mapped(file: Path) -> AnyArray:
    with reading(file, "not the .npy file it was", "write the bank again"):
        array: AnyArray = np.load(file, mmap_mode="r", allow_pickle=False)
        return array


class Growing:
    """A file that grows at its end, and the digest of what was appended since the last `commit`."""

    def __init__(self, path: Path, start: bytes = b"", size: int | None = None) -> None:
        """Start a file with the bytes `start`, or take one up at `size` bytes, cut there."""
        self.path = path
        self._file = path.open("r+b" if size is not None else "wb", buffering=0)
        self._hash = hashlib.sha256()
        try:
            if size is not None:
                self._file.truncate(size)
                self._file.seek(size)
            self._append(start)
        except BaseException:
            self._file.close()
            raise

    def append(self, data: Any) -> None:
        view = memoryview(data).cast("B")
        self._append(view)
        self._hash.update(view)

    def _append(self, data: bytes | memoryview) -> None:
        view = memoryview(data)
        while view:  # one write takes what fits: a full disk, or 2 GB
            view = view[self._file.write(view) or 0 :]

    def commit(self) -> bytes:
        """Bring what was appended to the disk and return its digest."""
        os.fsync(self._file.fileno())
        digest = self._hash.digest()
        self._hash = hashlib.sha256()
        return digest

    def rewrite(self, start: bytes) -> None:
        """Replace the first bytes of the file."""
        self._file.seek(0)
        self._append(start)
        self._file.seek(0, os.SEEK_END)

    def close(self) -> None:
        self._file.close()


def shard_digest(digests: dict[str, bytes]) -> str:
    """Return the digest of a shard from the SHA-256 of its part of each file."""
    lines = [f"{name} {digests[name].hex()}\n" for name in sorted(digests)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def raw_bytes(rows: AnyArray) -> memoryview:
    """Return the bytes of an array, row by row."""
    return np.ascontiguousarray(rows).view(np.uint8).data


def encode_names(names: Sequence[str]) -> list[bytes]:
    """Return names as UTF-8; those of other file systems stay as they are."""
    try:
        return [name.encode("utf-8", "surrogateescape") for name in names]
    except (AttributeError, UnicodeEncodeError) as error:
        raise InputError(
            f"a name cannot be stored ({error}); pass one string of Unicode per row."
        ) from None


class Names(Sequence[str]):
    """The names of a bank's rows, read from the disk one at a time."""

    def __init__(self, folder: Path, rows: int) -> None:
        self._offsets: NDArray[np.int64] = _mapped(folder / OFFSETS)
        if self._offsets.shape != (rows + 1,) or self._offsets.dtype != np.int64:
            raise FormatError(f"{folder}: {OFFSETS} is not of {rows} rows; write the bank again.")
        self._bytes: NDArray[np.uint8] = np.empty(0, np.uint8)
        if (folder / NAMES).stat().st_size:  # an empty file cannot be mapped
            self._bytes = np.memmap(folder / NAMES, dtype=np.uint8, mode="r")

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        i = range(len(self))[index]
        name = self._bytes[self._offsets[i] : self._offsets[i + 1]]
        return name.tobytes().decode("utf-8", "surrogateescape")

    def part(self, start: int, stop: int) -> dict[str, AnyArray]:
        """Return what rows [start, stop) have in each of the two files."""
        offsets = self._offsets[start : stop + 1]
        return {NAMES: self._bytes[offsets[0] : offsets[-1]], OFFSETS: offsets[1:]}

    def are_unicode(self) -> bool:
        """Tell whether all names are proper Unicode, as Parquet's strings have to be."""
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            for start in range(0, len(self._bytes), 1 << 20):
                decoder.decode(self._bytes[start : start + (1 << 20)].tobytes())
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return False
        return True
