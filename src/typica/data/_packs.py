"""Images in files of arrays and tables: .npy, .npz, SVHN's .mat and Parquet."""

from __future__ import annotations

import importlib
import json
import threading
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from typica.data._decode import ImageError
from typica.data._image_sets import ArrayImages, Images, Numbered, PackedImages, as_labels
from typica.data._table import LABELS
from typica.errors import FormatError, InputError
from typica.extras import need


def open_npy(path: Path, name: str) -> Images:
    """Return the images of an .npy file, which stays on disk and is read as needed."""
    try:
        return ArrayImages(np.load(path, mmap_mode="r", allow_pickle=False), name)
    except (EOFError, OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise FormatError(
            f"{path}: not a whole .npy file of numbers ({error}); write it again."
        ) from None


def open_npz(path: Path, name: str) -> Images:
    """Return the images of an .npz file: the array `images`, or the only one; `labels` and `classes` if there."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
    except Exception as error:  # zipfile, zlib and NumPy raise many kinds for a damaged archive
        raise FormatError(
            f"{path}: not a whole .npz file of numbers ({error}); write it again."
        ) from None
    labels = next((arrays.pop(key) for key in LABELS if key in arrays), None)
    classes = arrays.pop("classes", None)
    if "images" not in arrays and len(arrays) != 1:
        raise FormatError(
            f"{path}: holds {', '.join(arrays) or 'nothing'}; name the array of images 'images'."
        )
    array = arrays["images"] if "images" in arrays else next(iter(arrays.values()))
    return _labelled(
        array, path, name, labels, None if classes is None else [str(c) for c in np.ravel(classes)]
    )


def open_mat(path: Path, name: str) -> Images:
    """Return the images of SVHN's cropped digits: X (32, 32, 3, n) and y (n, 1), where 10 stands for the digit 0."""
    loadmat = importlib.import_module("scipy.io").loadmat
    try:
        content = loadmat(path, variable_names=["X", "y"])
    except Exception as error:  # scipy raises many kinds for damage, and for MATLAB's newer format
        raise FormatError(
            f"{path}: not a whole .mat file of version 5 ({error}); fetch it again."
        ) from None
    if "X" not in content or np.ndim(content["X"]) != 4:
        raise FormatError(
            f"{path}: holds no images X (height, width, 3, n), as SVHN's cropped digits have."
        )
    labels = None
    if "y" in content:
        digits = np.ravel(content["y"])
        labels = np.where(digits == 10, 0, digits)
    return _labelled(
        np.ascontiguousarray(np.moveaxis(content["X"], 3, 0)), path, name, labels, None
    )


def _labelled(array: Any, path: Path, name: str, labels: Any, classes: list[str] | None) -> Images:
    if labels is None:
        return ArrayImages(array, name)
    indices, found = as_labels(labels, len(array), str(path))
    return ArrayImages(array, name, indices, found or classes)


def open_parquet(path: Path, name: str) -> Images:
    """Return the images of a Parquet file: a column `image` of bytes or of Hugging Face's {bytes, path}.

    A column `label` gives the labels; names of classes are taken from Hugging Face's metadata. Row
    groups are read as they are needed, and the last two kept.
    """
    pyarrow, parquet = need("pyarrow", "parquet"), need("pyarrow.parquet", "parquet")
    try:
        file = parquet.ParquetFile(path)
        columns = {field.name: field.type for field in file.schema_arrow}
        column = next((key for key in ("image", "images", "img") if key in columns), None)
        if column is None:
            raise FormatError(
                f"{path}: holds {', '.join(columns)}; name the column of images 'image'."
            )
        label = next((key for key in ("label", "labels", "fine_label") if key in columns), None)
        given = None if label is None else file.read([label]).column(0)
    except (pyarrow.ArrowException, OSError) as error:
        raise FormatError(f"{path}: not a whole .parquet file ({error}); write it again.") from None
    if not file.metadata.num_rows:
        raise InputError(f"{path}: holds no images; pass a file with rows.")
    labels, classes = _parquet_labels(given, file.schema_arrow.metadata, label, str(path))
    counts = [file.metadata.row_group(k).num_rows for k in range(file.metadata.num_row_groups)]
    rows = _Rows(file, column, counts, name)
    return PackedImages(
        str(path), rows.read, Numbered(name, sum(counts)), [], labels=labels, classes=classes
    )


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
        """Return the bytes of row i."""
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
            raise ImageError(f"{self._name}[{i}]: the row holds no image's bytes; leave it out.")
        return value


def _parquet_labels(
    given: Any, metadata: Any, label: str | None, where: str
) -> tuple[Any, list[str] | None]:
    """Return labels and class names, or neither where some row has no label (null, or Hugging Face's -1)."""
    if given is None or given.null_count:
        return None, None
    labels, classes = as_labels(given.to_pylist(), len(given), where)
    if labels.min() < 0:
        return None, None
    if classes is None:
        try:
            features = json.loads((metadata or {})[b"huggingface"])["info"]["features"]
            classes = [str(name) for name in features[label]["names"]]
        except (KeyError, TypeError, ValueError):
            classes = None
    return labels, classes
