"""The bytes that tell one set of images from another, read for its fingerprint."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from typica.data._tar import open_tar_file

WHOLE = 2**32  # sets of up to this many bytes are fingerprinted in full
_ENDS = 4096  # larger ones by blocks of this size, at either end of each file or image at least
_BLOCK = 2**20
_FILE_STEP = 2**20  # from one block to the next in a file that holds many images
_IMAGE_STEP = 2**16  # and in an image of an array


def files_content(keys: Sequence[str], paths: Sequence[str]) -> Iterator[bytes]:
    """Yield names, sizes and content of files; if larger than WHOLE in all, the ends of each."""
    sizes = [_image_file_size(path) for path in paths]
    whole = sum(sizes) <= WHOLE
    for key, path, size in zip(keys, paths, sizes, strict=True):
        yield json.dumps([key, size]).encode()
        yield from _file_content(path, size, whole=whole, step=size)


def pack_content(path: str) -> Iterator[bytes]:
    """Yield size and content of a file that holds many images, or a block at every step of it."""
    size = _image_file_size(path)
    yield json.dumps(["", size]).encode()
    yield from _file_content(path, size, whole=size <= WHOLE, step=_FILE_STEP)


def archive_content(path: str) -> Iterator[bytes]:
    """Yield size and content of an archive; of a large one, what tells its members from others."""
    if _image_file_size(path) <= WHOLE:
        yield from pack_content(path)
    elif path.lower().endswith(".zip"):
        yield from _zip_members(path)
    else:
        yield from _tar_members(path)


def array_content(images: NDArray[np.uint8]) -> Iterator[bytes | memoryview]:
    """Yield the shape and the content of an array, or a block at every step of each image."""
    yield json.dumps(images.shape).encode()
    for image in images:
        data = np.ascontiguousarray(image).data.cast("B")
        if images.nbytes <= WHOLE or len(data) <= 2 * _ENDS:
            yield data
            continue
        for start in _starts(len(data), _IMAGE_STEP):
            yield data[start : start + _ENDS]


def _file_content(path: str, size: int, *, whole: bool, step: int) -> Iterator[bytes]:
    if size < 0:  # gone or unreadable, as `read` will say: the set can still be told from others
        return
    with Path(path).open("rb") as file:
        if whole or size <= 2 * _ENDS:
            yield from _blocks(file)
            return
        for start in _starts(size, step):
            file.seek(start)
            yield file.read(_ENDS)


def _blocks(file: IO[Any]) -> Iterator[bytes]:
    while block := file.read(_BLOCK):
        yield block


def _starts(size: int, step: int) -> list[int]:
    """Return where blocks of _ENDS bytes begin: at every step, and the last one at the end."""
    return [*range(0, size - _ENDS, step), size - _ENDS]


def _zip_members(path: str) -> Iterator[bytes]:
    """Yield name, size and checksum of each member, as the archive keeps them."""
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            yield json.dumps([entry.filename, entry.file_size, entry.CRC]).encode()


def _tar_members(path: str) -> Iterator[bytes]:
    """Yield name, size and ends of each member."""
    with open_tar_file(Path(path), "r:*") as tar:
        for member in tar:  # from front to back, so that a compressed one is unpacked only once
            yield json.dumps([member.name, member.size]).encode()
            content = tar.extractfile(member) if member.isreg() else None
            if content is not None:
                yield content.read(_ENDS)
                content.seek(max(_ENDS, member.size - _ENDS))
                yield content.read()


def _image_file_size(path: str) -> int:
    """Return the bytes in a file of images to fingerprint, or -1 where it cannot be opened."""
    try:
        with Path(path).open("rb") as file:
            return file.seek(0, os.SEEK_END)
    except OSError:
        return -1
