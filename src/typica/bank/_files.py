"""The files of a bank: their names, and columns that grow at their end."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from typica.arrays import AnyArray
from typica.files import reading

HEAD = "head.safetensors"
NAMES = "names.bin"
OFFSETS = "names.offsets.npy"
HEADER = 128  # bytes; room for any shape: a header is rewritten when the number of rows is known


def column_file(column: str) -> str:
    """Return the name of a column's file in a bank; a layer's name may hold anything.

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


def mapped_file(file: Path) -> AnyArray:
    """Return the array in one of a bank's .npy files, memory-mapped."""
    with reading(file, "the .npy file has changed or is damaged", "write the bank again"):
        array: AnyArray = np.load(file, mmap_mode="r", allow_pickle=False)
        return array


class Growing:
    """A file that grows at its end, and the digest of what was appended since the last `commit`."""

    def __init__(self, path: Path, start: bytes = b"", size: int | None = None) -> None:
        """Start a file with the bytes `start`, or resume one, cut at `size` bytes."""
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
        """Flush what was appended to the disk and return its digest."""
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


def column_bytes(rows: AnyArray) -> memoryview:
    """Return the bytes of rows of a bank's column, for its digest."""
    return np.ascontiguousarray(rows).view(np.uint8).data
