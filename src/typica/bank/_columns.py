"""A batch for a bank: each column as it is stored, checked against the others and against the batches before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica.bank._files import HEADER, Manifest, column_file
from typica.errors import InputError

DTYPES = ("float16", "float32", "float64")
_WHERE = "BankWriter.write"


def prepared_columns(columns: Mapping[str, Any], manifest: Manifest) -> dict[str, NDArray[Any]]:
    """Return the columns of a batch as they are stored; nothing for a batch without rows."""
    arrays = {name: np.asarray(column) for name, column in sorted(columns.items())}
    lengths = {name: len(column) if column.ndim else 1 for name, column in arrays.items()}
    if not any(lengths.values()):
        return {}
    if "features" not in arrays:
        raise InputError(f"{_WHERE}: no column 'features' among {', '.join(arrays)}; pass it.")
    if len(set(lengths.values())) != 1:
        raise InputError(
            f"{_WHERE}: columns of different length ({lengths}); pass one row each for every input."
        )
    known = manifest.columns
    if known and set(known) != set(arrays):
        raise InputError(
            f"{_WHERE}: the columns {', '.join(sorted(arrays))} after {', '.join(sorted(known))} in the batches "
            "before; pass the same ones."
        )
    prepared = {}
    for name, column in arrays.items():
        stored = (
            _labels(column, known) if name == "labels" else _numbers(name, column, manifest.dtype)
        )
        width = stored.shape[1] if stored.ndim == 2 else None
        if known and (known[name]["dtype"], known[name]["width"]) != (stored.dtype.str, width):
            raise InputError(
                f"{_WHERE}: {name} of type {stored.dtype} and width {width} after {np.dtype(known[name]['dtype'])} and "
                f"{known[name]['width']} in the batches before; pass the same."
            )
        prepared[name] = stored
    return prepared


def _labels(column: NDArray[Any], known: dict[str, dict[str, Any]]) -> NDArray[Any]:
    if column.ndim != 1:
        raise InputError(f"{_WHERE}: labels of shape {column.shape}; pass one a row.")
    if column.dtype.kind == "O" and all(isinstance(label, str) for label in column):
        column = column.astype(np.str_)
    if column.dtype.kind not in "iubU":
        raise InputError(f"{_WHERE}: labels of type {column.dtype}; pass integers or strings.")
    if column.dtype.kind != "U":
        return column.astype("<i8")
    room = np.dtype(known["labels"]["dtype"]) if known else column.dtype.newbyteorder("<")
    fits = room.kind == "U" and room.itemsize >= 4 * max(map(len, column.tolist()))
    return column.astype(room if fits else column.dtype.newbyteorder("<"))


def _numbers(name: str, column: NDArray[Any], dtype: str) -> NDArray[Any]:
    if name not in ("features", "logits") and not (
        name.startswith("layer.") and len(name) > len("layer.")
    ):
        raise InputError(
            f"{_WHERE}: {name!r} is no column of a bank; use features, logits, labels or layer.NAME."
        )
    if column.ndim != 2 or not column.shape[1] or column.dtype.kind not in "fiub":
        raise InputError(
            f"{_WHERE}: {name} of shape {column.shape} and type {column.dtype}; pass numbers of shape (rows, width)."
        )
    wanted = "float32" if name == "logits" and dtype == "float16" else dtype
    with np.errstate(over="ignore"):
        cast = column.astype(np.dtype(wanted).newbyteorder("<"), order="C")
    if (np.isinf(cast) & np.isfinite(column)).any():
        largest = float(np.abs(column[np.isfinite(column)].astype(np.float64)).max())
        wider = DTYPES[DTYPES.index(wanted) + 1]
        raise InputError(
            f"{_WHERE}: {name} holds {largest:g}, beyond {wanted}; use dtype={wider!r}."
        )
    return cast


def check_labels(folder: Path, manifest: Manifest, classes: Sequence[str]) -> None:
    """Check that the integer labels of a bank, which is all written, point to its class names."""
    if "labels" not in manifest.columns or manifest.dtype_of("labels").kind != "i":
        return
    labels = np.memmap(
        folder / column_file("labels"), "<i8", "r", offset=HEADER, shape=manifest.shape_of("labels")
    )
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= len(classes):
        raise InputError(
            f"{folder}: labels from {low} to {high} for {len(classes)} class names; pass a name for each."
        )
