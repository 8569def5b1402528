"""Images in files of arrays and tables: .npy, .npz, SVHN's .mat and Parquet."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from typica.bombs import check_parquet
from typica.data._decode import ImageError
from typica.data._feature_arrays import load_npy, load_npz
from typica.data._feature_table import label_name
from typica.data._image_sets import ArrayImages, Images, Numbered, PackedImages, indexed_labels
from typica.data._mat import read_mat
from typica.errors import FormatError, InputError, about
from typica.extras import need
from typica.files import reading

_IMAGE_COLUMNS = ("image", "images", "img")
_LABEL_COLUMNS = ("label", "labels", "fine_label")


def open_npy(path: Path, name: str) -> Images:
    """Return the images of an .npy file, which stays on disk and is read as needed."""
    return ArrayImages(load_npy(path), name)


def open_npz(path: Path, name: str) -> Images:
    """Return the images of an .npz file: the array `images`, or the only one.

    `labels` and `classes` are taken if they are there.
    """
    arrays = load_npz(path)
    label = label_name(arrays)
    labels = None if label is None else arrays.pop(label)
    classes = arrays.pop("classes", None)
    if "images" not in arrays and len(arrays) != 1:
        raise FormatError(
            f"{path}: holds {', '.join(arrays) or 'nothing'}; name the array of images 'images'."
        )
    array = arrays["images"] if "images" in arrays else next(iter(arrays.values()))
    names = None if classes is None else [str(entry) for entry in np.ravel(classes)]
    return _labelled(array, path, name, labels, names)


def open_mat(path: Path, name: str) -> Images:
    """Return the images of SVHN's cropped digits: X (32, 32, 3, n) and y (n, 1).

    There 10 stands for the digit 0.
    """
    content = read_mat(path, ("X", "y"))
    if "X" not in content or np.ndim(content["X"]) != 4:
        raise FormatError(
            f"{path}: holds no images X (height, width, 3, n), as SVHN's cropped digits have."
        )
    labels = None
    if "y" in content:
        digits = np.ravel(content["y"])
        labels = np.where(digits == 10, 0, digits)
    images = np.ascontiguousarray(np.moveaxis(content["X"], 3, 0))
    return _labelled(images, path, name, labels, None)


def _labelled(array: Any, path: Path, name: str, labels: Any, classes: list[str] | None) -> Images:
    if labels is None:
        return ArrayImages(array, name)
    with about(str(path)):
        indices, found = indexed_labels(labels, len(array))
    return ArrayImages(array, name, indices, found or classes)


def open_parquet(path: Path, name: str) -> Images:
    """Return the images of a Parquet file: a column `image` of bytes, or of {bytes, path}.

    The latter is Hugging Face's form. A column `label` gives the labels; names of classes are taken
    from Hugging Face's metadata. Row groups are read as they are needed, and the last two kept.
    """
    parquet = need("pyarrow.parquet", "parquet")
    with reading(path, "not a whole .parquet file"):
        check_parquet(path)
        file = parquet.ParquetFile(path)
        columns = file.schema_arrow.names
        label = _first_of(_LABEL_COLUMNS, columns)
        given = None if label is None else file.read([label]).column(0)
    column = _first_of(_IMAGE_COLUMNS, columns)
    if column is None:
        raise FormatError(f"{path}: holds {', '.join(columns)}; name the column of images 'image'.")
    if not file.metadata.num_rows:
        raise InputError(f"{path}: holds no images; pass a file with rows.")
    with about(str(path)):
        labels, classes = _parquet_labels(given, file.schema_arrow.metadata, label)
    counts = [file.metadata.row_group(k).num_rows for k in range(file.metadata.num_row_groups)]
    rows = _Rows(file, column, counts, name)
    return PackedImages(
        str(path), rows.read, Numbered(name, sum(counts)), [], labels=labels, classes=classes
    )


def _first_of(wanted: Sequence[str], there: Sequence[str]) -> str | None:
    return next((name for name in wanted if name in there), None)


class _Rows:
    """The bytes of images in a Parquet file by row."""

    def __init__(self, file: Any, column: str, counts: Sequence[int], name: str) -> None:
        self._ends = np.cumsum(counts)
        self._counts = counts
        self._name = name
        self._lock = threading.Lock()
        self._group = lru_cache(maxsize=2)(
            lambda k: file.read_row_group(k, columns=[column]).column(0)
        )

    def read(self, i: int) -> bytes:
        """Return the bytes of image i in the Parquet file."""
        k = int(np.searchsorted(self._ends, i, side="right"))
        try:
            with self._lock:
                value = self._group(k)[i - int(self._ends[k]) + self._counts[k]].as_py()
        except Exception as error:  # Arrow has kinds for damage that its base class does not cover
            raise ImageError(
                f"{self._name}[{i}]: cannot be read ({error}); write the file again."
            ) from None
        value = value.get("bytes") if isinstance(value, dict) else value
        if not isinstance(value, bytes):
            raise ImageError(f"{self._name}[{i}]: holds no bytes of an image; leave it out.")
        return value


def _parquet_labels(given: Any, metadata: Any, label: str | None) -> tuple[Any, list[str] | None]:
    """Return labels and class names, or neither where a row has none (null, Hugging Face's -1)."""
    if given is None or given.null_count:
        return None, None
    labels, classes = indexed_labels(given.to_pylist(), len(given))
    if labels.min() < 0:
        return None, None
    return labels, classes or _hugging_face_names(metadata, label)


def _hugging_face_names(metadata: Any, label: str | None) -> list[str] | None:
    """Return the names of classes that Hugging Face's metadata has for a column, if any."""
    try:
        features = json.loads((metadata or {})[b"huggingface"])["info"]["features"]
        return [str(name) for name in features[label]["names"]]
    except (KeyError, TypeError, ValueError):
        return None
