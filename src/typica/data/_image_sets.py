"""A set of images, whatever holds them: files, an array, an archive, or several sets in a row."""

from __future__ import annotations

import copy
import functools
import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self, overload

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from typica.arrays import AnyArray
from typica.data._decode import ORIENTATION, decode, loaded
from typica.data._fingerprints import archive_content, array_content, files_content, pack_content
from typica.data._folder_classes import folder_notes
from typica.errors import InputError, about, counted


class Images:
    """A read-only sequence of images with their names and maybe labels; made by `open_images`.

    Several threads may read at once.

    Attributes
    ----------
    names
        One per image.
    labels
        (n,) int64 or None; where `classes` has names, they index it.
    classes
        The names of the classes, if known.
    ignored
        The names of files among the images that are not images.
    notes
        Sentences on what one might not expect of the set, such as folders that are not taken as
        classes.
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
                    f"{names[0]}: labels from {low} to {high} for {len(self.classes)} class names; "
                    "fix the labels."
                )

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        known = [counted(len(self), "image")]
        if self.labels is not None:
            known.append(counted(len(self.classes or np.unique(self.labels)), "class"))
        return f"{type(self).__name__}({', '.join(known)}, {len(self.ignored)} ignored)"

    def read(self, i: int) -> Image.Image | NDArray[np.uint8]:
        """Return image i: an RGB Pillow image that keeps its EXIF orientation, or uint8 (h, w, 3).

        Raises ImageError where it cannot be read.
        """
        raise NotImplementedError

    def relabelled(self, labels: NDArray[np.int64] | None, classes: Sequence[str] | None) -> Self:
        """Return the same images with other labels, and another fingerprint: they are part of it.

        labels, classes: as the set has them.
        """
        other = copy.copy(self)
        other.__dict__.pop("_digest", None)
        other.labels = labels
        other.classes = None if classes is None else list(classes)
        return other

    def fingerprint(self) -> str:
        """Return the SHA-256 of the set: labels, classes, names within it, sizes and content.

        The place of the set makes no difference, nor does the file name of an array or archive. For
        sets larger than 4 GiB a part stands for the content, and a change in the rest that keeps
        all sizes is not noticed:

        - images in files, and members of a tar: the first and last 4 KiB of each;
        - members of a zip: the CRC-32 of each, which the archive keeps and which covers all of it;
        - Parquet: 4 KiB at every MiB of the file, and its last 4 KiB;
        - arrays (.npy, .npz, .mat, CIFAR): 4 KiB at every 64 KiB of each image, and its last 4 KiB.

        The content is read once: later changes are noticed when the set is opened again.
        """
        return self._digest

    @functools.cached_property
    def _digest(self) -> str:
        digest = hashlib.sha256(json.dumps([len(self), self.classes]).encode())
        digest.update(b"" if self.labels is None else self.labels.astype("<i8").tobytes())
        for part in self._content():
            digest.update(part)
        return digest.hexdigest()

    def _content(self) -> Iterator[bytes | memoryview]:
        """Yield what tells this set from others, piece by piece."""
        raise NotImplementedError


class FileImages(Images):
    """Images in files of their own. `keys`, paths within the set, name them in the fingerprint."""

    def __init__(
        self, paths: Sequence[str], names: Sequence[str], keys: Sequence[str], **rest: Any
    ) -> None:
        super().__init__(names, **rest)
        self._paths = paths
        self._keys = keys

    def read(self, i: int) -> Image.Image:
        return decode(self._paths[i], name=self.names[i])

    def _content(self) -> Iterator[bytes | memoryview]:
        return files_content(self._keys, self._paths)


class PackedImages(Images):
    """Images whose files lie in a larger file: `reader(i)` gives the bytes of file i.

    keys: their names in an archive; a Parquet file has none. Of files with the same name, the later
    ones have " (2)", " (3)" ... after it.
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
        if self._keys:
            yield from archive_content(self._path)
        else:
            yield from pack_content(self._path)


class ArrayImages(Images):
    """Images in one uint8 array: (n, h, w, 3), or (n, h, w) and (n, h, w, 1) of greys.

    name: what the array is called; its images are "name[0]", "name[1]" ...
    """

    def __init__(self, array: AnyArray, name: str, labels: Any = None, classes: Any = None) -> None:
        with about(name):
            self._array = _with_channels(array)
        super().__init__(Numbered(name, len(array)), labels, classes)

    def read(self, i: int) -> NDArray[np.uint8]:
        image = np.asarray(self._array[i])
        if image.shape[2] == 3:
            return image
        return np.repeat(image, 3, axis=2)

    def _content(self) -> Iterator[bytes | memoryview]:
        return array_content(self._array)


class LooseImages(Images):
    """Images in memory, each a Pillow image or a uint8 array (h, w, 3) or (h, w)."""

    def __init__(self, images: Sequence[Image.Image | AnyArray]) -> None:
        super().__init__(Numbered("images", len(images)))
        self._images = list(images)
        for name, image in zip(self.names, self._images, strict=True):
            if isinstance(image, np.ndarray):
                with about(name):
                    _with_channels(image[None])

    def read(self, i: int) -> Image.Image | NDArray[np.uint8]:
        image = self._images[i]
        if isinstance(image, Image.Image):
            return loaded(image, self.names[i])
        channels = _with_channels(image[None])[0]
        return channels if channels.shape[2] == 3 else np.repeat(channels, 3, axis=2)

    def _content(self) -> Iterator[bytes | memoryview]:
        for i in range(len(self)):
            image = self.read(i)
            pixels = np.ascontiguousarray(image)
            kind: list[Any] = [pixels.dtype.str, pixels.shape]
            if isinstance(image, Image.Image):
                kind += [image.mode, image.getpalette(), image.getexif().get(ORIENTATION)]
            yield json.dumps(kind).encode()
            yield pixels.tobytes()


class JoinedImages(Images):
    """Several sets, one after another.

    Labels are kept if all have them, joined by the names of their classes.
    """

    def __init__(self, parts: Sequence[Images]) -> None:
        chain = itertools.chain.from_iterable
        labels, classes = _joined_labels(parts)
        super().__init__(
            list(chain(part.names for part in parts)),
            labels,
            classes,
            list(chain(part.ignored for part in parts)),
            list(chain(part.notes for part in parts)),
        )
        self._parts = parts
        self._ends = np.cumsum([len(part) for part in parts])

    def read(self, i: int) -> Image.Image | NDArray[np.uint8]:
        k = int(np.searchsorted(self._ends, i, side="right"))
        return self._parts[k].read(i - int(self._ends[k]) + len(self._parts[k]))

    def _content(self) -> Iterator[bytes | memoryview]:
        return (part.fingerprint().encode() for part in self._parts)


def joined(parts: Sequence[Images]) -> Images:
    """Return several sets as one; a single one as it is."""
    if len(parts) == 1:
        return parts[0]
    return JoinedImages(parts)


class Numbered(Sequence[str]):
    """The names "name[0]", "name[1]" ... without a list of them."""

    def __init__(self, name: str, count: int) -> None:
        self._name = name
        self._rows = range(count)

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, i: int) -> str: ...
    @overload
    def __getitem__(self, i: slice) -> Sequence[str]: ...
    def __getitem__(self, i: int | slice) -> str | Sequence[str]:
        if isinstance(i, slice):
            return [f"{self._name}[{row}]" for row in self._rows[i]]
        return f"{self._name}[{self._rows[i]}]"


def indexed_labels(labels: Any, count: int) -> tuple[NDArray[np.int64], list[str] | None]:
    """Return int64 labels of images and, if they were given as strings, the sorted classes."""
    array = np.asarray(labels)
    if array.shape != (count,):
        raise InputError(
            f"labels of shape {array.shape} for {counted(count, 'image')}; one per image is needed."
        )
    if array.dtype.kind in "UO" and all(isinstance(label, str) for label in array):
        names, indices = np.unique(array.astype(np.str_), return_inverse=True)
        return indices.astype(np.int64), names.tolist()
    if array.dtype.kind not in "iub":
        raise InputError(f"labels of type {array.dtype}; pass integers or strings.")
    if array.size and int(array.max()) > np.iinfo(np.int64).max:  # of uint64: it would be negative
        raise InputError(f"label {array.max()} is 2**63 or more; pass smaller integers, or names.")
    return array.astype(np.int64), None


def _unique(names: Sequence[str]) -> list[str]:
    """Return the names of images, repeated ones with a number that makes them unique."""
    counts: Counter[str] = Counter()
    unique = []
    for name in names:
        counts[name] += 1
        unique.append(name if counts[name] == 1 else f"{name} ({counts[name]})")
    return unique


def _with_channels(array: AnyArray) -> NDArray[np.uint8]:
    """Return an array of images as (n, h, w, 1 or 3)."""
    shape = array.shape
    if array.dtype != np.uint8:
        raise InputError(f"type {array.dtype}; pass uint8 values, 0 to 255.")
    if array.ndim == 3 and shape[2] == 3:
        raise InputError(
            f"shape {shape} is a single image's; pass image[None], of shape {(1, *shape)}."
        )
    if array.ndim == 4 and shape[1] == 3 and shape[3] not in (1, 3):
        raise InputError(f"shape {shape} has channels first; pass array.transpose(0, 2, 3, 1).")
    array = array[..., None] if array.ndim == 3 else array
    if array.ndim != 4 or array.shape[3] not in (1, 3) or 0 in array.shape:
        raise InputError(f"shape {shape}; pass (n, height, width, 3), or greys (n, height, width).")
    return array


def _joined_labels(parts: Sequence[Images]) -> tuple[NDArray[np.int64] | None, list[str] | None]:
    """Return the labels of all parts and the classes that they index; none unless all have them."""
    labels = [part.labels for part in parts if part.labels is not None]
    classes = [part.classes for part in parts if part.classes is not None]
    if len(labels) != len(parts) or len(classes) not in (0, len(parts)):
        return None, None
    if not classes:
        return np.concatenate(labels), None
    joined = _joined_classes(classes)
    place = {name: k for k, name in enumerate(joined)}
    moved = []
    for names, found in zip(classes, labels, strict=True):
        places = np.array([place[name] for name in names], dtype=np.int64)
        moved.append(places[found])
    return np.concatenate(moved), joined


def _joined_classes(classes: Sequence[list[str]]) -> list[str]:
    """Return the classes of all parts in one order: their own, or sorted as ImageFolder does."""
    first = classes[0]
    if all(names == first for names in classes):
        return list(first)
    return sorted(set().union(*classes))
