"""A set of images, whatever holds them: files, an array, an archive's members, or several sets in a row."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from typica.data._decode import decode
from typica.errors import InputError

WHOLE = 2**32  # sets of up to this many bytes are fingerprinted in full
_ENDS = 4096  # larger ones by blocks of this many bytes, at least at either end of each file, member or image
_BLOCK = 2**20
_FILE_STEP = 2**20  # from one block to the next in a file that holds many images
_PICTURE_STEP = 2**16  # and in an image of an array


class Images:
    """A read-only sequence of images with their names and maybe labels; made by `open_images`.

    names: one an image. labels: (n,) int64 or None; where `classes` has names, they index it.
    ignored: the names of what lay among the images and is none. notes: sentences on what one might
    not expect of the set, such as folders that are not taken as classes. Reading is safe from
    several threads at once.
    """

    def __init__(
        self,
        names: Sequence[str],
        labels: NDArray[np.int64] | None = None,
        classes: Sequence[str] | None = None,
        ignored: Sequence[str] = (),
        notes: Sequence[str] = (),
    ) -> None:
        self.names = names
        self.labels = labels
        self.classes = None if classes is None else list(classes)
        self.ignored = list(ignored)
        self.notes = list(notes)
        if labels is not None and self.classes is not None:
            low, high = int(labels.min(initial=0)), int(labels.max(initial=0))
            if low < 0 or high >= len(self.classes):
                raise InputError(
                    f"{names[0]}: labels from {low} to {high} for {len(self.classes)} class names; mend the labels."
                )

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        known = (
            ""
            if self.labels is None
            else f", {len(self.classes or np.unique(self.labels))} classes"
        )
        return f"{type(self).__name__}({len(self)} images{known}, {len(self.ignored)} ignored)"

    def read(self, i: int) -> Image.Image | NDArray[np.uint8]:
        """Return image i: an RGB Pillow image that keeps its EXIF orientation, or uint8 (h, w, 3).

        Raises ImageError where it cannot be read.
        """
        raise NotImplementedError

    def fingerprint(self) -> str:
        """Return the SHA-256 of the set: labels, classes, names within it, sizes and content.

        Where the set lies, and in an array or archive what its file is called, makes no difference.
        Of sets larger than 4 GiB a part stands for the content, and a change of the rest that keeps
        all sizes goes unseen:

        - images in files, and members of a tar: the first and last 4 KiB of each;
        - members of a zip: the CRC-32 of each, which the archive keeps and which covers all of it;
        - Parquet: 4 KiB at every MiB of the file, and its last 4 KiB;
        - arrays (.npy, .npz, .mat, CIFAR): 4 KiB at every 64 KiB of each image, and its last 4 KiB.
        """
        digest = hashlib.sha256(json.dumps([len(self), self.classes]).encode())
        digest.update(b"" if self.labels is None else self.labels.astype("<i8").tobytes())
        for part in self._content():
            digest.update(part)
        return digest.hexdigest()

    def _content(self) -> Iterator[bytes | memoryview]:
        """Yield what tells this set from others, piece by piece."""
        raise NotImplementedError


class FileImages(Images):
    """Images in files of their own. `keys` are their names in the fingerprint: paths within the set."""

    def __init__(
        self, paths: Sequence[str], names: Sequence[str], keys: Sequence[str], **rest: Any
    ) -> None:
        super().__init__(names, **rest)
        self._paths = paths
        self._keys = keys

    def read(self, i: int) -> Image.Image:
        return decode(self._paths[i], name=self.names[i])

    def _content(self) -> Iterator[bytes | memoryview]:
        return file_content(self._keys, self._paths)


class PackedImages(Images):
    """Images whose files lie in a larger file: `reader(i)` gives the bytes of file i, `keys` their names in it.

    A file without names in it, a Parquet, has no keys. Of files of one name in an archive, the
    later ones are told apart by " (2)", " (3)" ... after it.
    """

    def __init__(
        self,
        path: str,
        reader: Callable[[int], bytes],
        names: Sequence[str],
        keys: Sequence[str],
        **rest: Any,
    ) -> None:
        super().__init__(_unique(names) if keys else names, **rest)
        if keys:
            self.notes += folder_notes(self.names, self.labels)
        self._path = path
        self._reader = reader
        self._keys = keys

    def read(self, i: int) -> Image.Image:
        return decode(self._reader(i), name=self.names[i])

    def _content(self) -> Iterator[bytes | memoryview]:
        yield json.dumps(list(self._keys)).encode()
        if self._keys and _size(self._path) > WHOLE:
            yield from _member_content(self._path)
        else:
            yield from file_content([""], [self._path], _FILE_STEP)


class ArrayImages(Images):
    """Images in one uint8 array: (n, h, w, 3), or (n, h, w) and (n, h, w, 1) of greys."""

    def __init__(
        self, array: NDArray[Any], where: str, labels: Any = None, classes: Any = None
    ) -> None:
        checked = _checked(array, where)
        super().__init__(Numbered(where, len(checked)), labels, classes)
        self._array = checked

    def read(self, i: int) -> NDArray[np.uint8]:
        picture = np.asarray(self._array[i])
        return picture if picture.shape[2] == 3 else np.repeat(picture, 3, axis=2)

    def _content(self) -> Iterator[bytes | memoryview]:
        yield json.dumps(self._array.shape).encode()
        for picture in self._array:
            data = np.ascontiguousarray(picture).data.cast("B")
            if self._array.nbytes <= WHOLE or len(data) <= 2 * _ENDS:
                yield data
            else:
                yield from (
                    data[start : start + _ENDS] for start in _starts(len(data), _PICTURE_STEP)
                )


class JoinedImages(Images):
    """Several sets, one after another. Labels are kept if all have them, joined by the classes' names."""

    def __init__(self, parts: Sequence[Images], ignored: Sequence[str] = ()) -> None:
        labels, classes = _joined_labels(parts)
        names = list(itertools.chain.from_iterable(part.names for part in parts))
        ignored = [*ignored, *(name for part in parts for name in part.ignored)]
        super().__init__(
            names, labels, classes, ignored, [note for part in parts for note in part.notes]
        )
        self._parts = parts
        self._ends = np.cumsum([len(part) for part in parts])

    def read(self, i: int) -> Image.Image | NDArray[np.uint8]:
        k = int(np.searchsorted(self._ends, i, side="right"))
        return self._parts[k].read(i - int(self._ends[k]) + len(self._parts[k]))

    def _content(self) -> Iterator[bytes | memoryview]:
        return (part.fingerprint().encode() for part in self._parts)


class Numbered(Sequence[str]):
    """The names "where[0]", "where[1]" ... without a list of them."""

    def __init__(self, where: str, count: int) -> None:
        self._where = where
        self._rows = range(count)

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, i: int) -> str: ...
    @overload
    def __getitem__(self, i: slice) -> Sequence[str]: ...
    def __getitem__(self, i: int | slice) -> str | Sequence[str]:
        if isinstance(i, slice):
            return [f"{self._where}[{row}]" for row in self._rows[i]]
        return f"{self._where}[{self._rows[i]}]"


def folder_notes(names: Sequence[str], labels: NDArray[np.int64] | None) -> list[str]:
    """Say so if images that lie beside folders, the least deep of all, are why there are no labels.

    >>> folder_notes(["stray.png", "cat/1.png"], None)
    ['images lie beside the folders (stray.png), so folders are not taken as classes']
    """
    depths = [name.count("/") for name in names]
    if labels is not None or min(depths) == max(depths):
        return []
    least = min(depths)
    beside = [name for name, depth in zip(names, depths, strict=True) if depth == least]
    shown = beside[0] if len(beside) == 1 else f"{beside[0]} and {len(beside) - 1} more"
    return [f"images lie beside the folders ({shown}), so folders are not taken as classes"]


def file_content(
    keys: Sequence[str], paths: Sequence[str], step: int | None = None
) -> Iterator[bytes]:
    """Yield names, sizes and content of files; if larger than WHOLE in all, the ends of each and a block a `step`."""
    sizes = [_size(path) for path in paths]
    whole = sum(sizes) <= WHOLE
    for key, path, size in zip(keys, paths, sizes, strict=True):
        yield json.dumps([key, size]).encode()
        if (
            size < 0
        ):  # gone or unreadable, which `read` reports: the set can still be told from others
            continue
        with Path(path).open("rb") as file:
            if whole or size <= 2 * _ENDS:
                while block := file.read(_BLOCK):
                    yield block
                continue
            for start in _starts(size, step or size):
                file.seek(start)
                yield file.read(_ENDS)


def as_labels(labels: Any, count: int, where: str) -> tuple[NDArray[np.int64], list[str] | None]:
    """Return int64 labels and, if they were given as strings, the names that they index, sorted."""
    array = np.asarray(labels)
    if array.shape != (count,):
        raise InputError(
            f"{where}: labels of shape {array.shape} for {count} images; one an image is needed."
        )
    if array.dtype.kind in "UO" and all(isinstance(label, str) for label in array):
        names, indices = np.unique(array.astype(np.str_), return_inverse=True)
        return indices.astype(np.int64), names.tolist()
    if array.dtype.kind not in "iub":
        raise InputError(f"{where}: labels of type {array.dtype}; pass integers or strings.")
    return array.astype(np.int64), None


def _starts(size: int, step: int) -> list[int]:
    """Return where blocks of _ENDS bytes begin: at every step, and the last one at the end."""
    return [*range(0, size - _ENDS, step), size - _ENDS]


def _member_content(path: str) -> Iterator[bytes]:
    """Yield name and size of each member of an archive, with the checksum that a zip keeps or the ends in a tar."""
    if path.lower().endswith(".zip"):
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                yield json.dumps([entry.filename, entry.file_size, entry.CRC]).encode()
        return
    with tarfile.open(path, errors="surrogateescape") as tar:
        for member in tar:  # from front to back, so that a compressed one is unpacked only once
            yield json.dumps([member.name, member.size]).encode()
            content = tar.extractfile(member) if member.isreg() else None
            if content is not None:
                yield content.read(_ENDS)
                content.seek(max(_ENDS, member.size - _ENDS))
                yield content.read()


def _unique(names: Sequence[str]) -> list[str]:
    """Return the names of images, repeated ones numbered; no other ends in a number, but in ".png" or the like."""
    counts: Counter[str] = Counter()
    unique = []
    for name in names:
        counts[name] += 1
        unique.append(name if counts[name] == 1 else f"{name} ({counts[name]})")
    return unique


def _size(path: str) -> int:
    try:
        with Path(path).open("rb") as file:
            return file.seek(0, os.SEEK_END)
    except OSError:
        return -1


def _checked(array: NDArray[Any], where: str) -> NDArray[np.uint8]:
    """Return the array as (n, h, w, 1 or 3)."""
    shape = array.shape
    if array.dtype != np.uint8:
        raise InputError(f"{where}: images of type {array.dtype}; pass uint8 values, 0 to 255.")
    if array.ndim == 3 and shape[2] == 3:
        raise InputError(
            f"{where}: shape {shape} is a single image's; pass image[None], of shape {(1, *shape)}."
        )
    if array.ndim == 4 and shape[1] == 3 and shape[3] not in (1, 3):
        raise InputError(
            f"{where}: shape {shape} has channels first; pass array.transpose(0, 2, 3, 1)."
        )
    array = array[..., None] if array.ndim == 3 else array
    if array.ndim != 4 or array.shape[3] not in (1, 3) or 0 in array.shape:
        raise InputError(
            f"{where}: images of shape {shape}; pass (n, height, width, 3), or greys (n, height, width)."
        )
    return array


def _joined_labels(parts: Sequence[Images]) -> tuple[NDArray[np.int64] | None, list[str] | None]:
    labels = [part.labels for part in parts if part.labels is not None]
    named = [part.classes is not None for part in parts]
    if len(labels) != len(parts) or any(named) != all(named):
        return None, None
    if not all(named):
        return np.concatenate(labels), None
    classes = list(parts[0].classes or ())
    if any(
        part.classes != classes for part in parts
    ):  # one order that fits all, as ImageFolder would give
        classes = sorted({name for part in parts for name in part.classes or ()})
    place = {name: k for k, name in enumerate(classes)}
    maps = [
        np.array([place[name] for name in part.classes or ()], dtype=np.int64) for part in parts
    ]
    return np.concatenate(
        [table[found] for table, found in zip(maps, labels, strict=True)]
    ), classes
