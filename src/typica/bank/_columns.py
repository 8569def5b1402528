"""A batch for a bank: columns as they are stored, checked against one another and earlier ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from typica.arrays import AnyArray
from typica.bank._files import HEADER, column_file
from typica.bank._manifest import Manifest
from typica.errors import InputError, a_kind
from typica.head import HEAD, Head

DTYPES = ("float16", "float32", "float64")
_LARGEST_LABEL = np.iinfo(np.int64).max


def prepared_columns(columns: Mapping[str, Any], manifest: Manifest) -> dict[str, AnyArray]:
    """Return the columns of a batch as they are stored; nothing for a batch without rows."""
    arrays = {name: np.asarray(column) for name, column in sorted(columns.items())}
    lengths = {name: len(column) if column.ndim else 1 for name, column in arrays.items()}
    if not any(lengths.values()):
        return {}
    _check_together(lengths, manifest)
    prepared = {}
    for name, column in arrays.items():
        if name == "labels":
            stored = _labels(column, manifest)
        else:
            stored = _numbers(name, column, manifest.dtype)
        _check_as_before(name, stored, manifest)
        prepared[name] = stored
    return prepared


def _check_together(lengths: Mapping[str, int], manifest: Manifest) -> None:
    """Check that columns of these names and lengths make up a batch of the bank."""
    if "features" not in lengths:
        raise InputError(f"no column 'features' among {', '.join(lengths)}; pass it.")
    if len(set(lengths.values())) != 1:
        raise InputError(
            f"columns of different length ({lengths}); pass one row each for every input."
        )
    known = manifest.columns
    if known and set(known) != set(lengths):
        raise InputError(
            f"the columns {', '.join(sorted(lengths))} after {', '.join(sorted(known))} "
            "in the batches before; pass the same ones."
        )


def _check_as_before(name: str, stored: AnyArray, manifest: Manifest) -> None:
    """Check that a column has the type and width that it had in the batches before."""
    if not manifest.columns:
        return
    before, known_width = manifest.dtype_of(name), manifest.columns[name]["width"]
    width = stored.shape[1] if stored.ndim == 2 else None
    if before.kind == stored.dtype.kind == "U" and before.itemsize < stored.itemsize:
        raise InputError(
            f"labels of up to {stored.itemsize // 4} characters after {before.itemsize // 4} in "
            f"the batches before; pass them as dtype {stored.dtype.str!r} from the first batch on."
        )
    if (before.str, known_width) != (stored.dtype.str, width):
        raise InputError(
            f"{name} of type {stored.dtype} and width {width} after {before} and {known_width} "
            "in the batches before; pass the same."
        )


def _labels(column: AnyArray, manifest: Manifest) -> AnyArray:
    """Return the labels of a batch as they are stored: 64-bit integers, or texts."""
    if column.ndim != 1:
        raise InputError(f"labels of shape {column.shape}; pass one per row.")
    labels = _as_texts(column)
    _check_label_type(labels)
    if labels.dtype.kind != "U":
        return labels.astype("<i8")
    return labels.astype(_text_dtype(labels, manifest))


def _as_texts(column: AnyArray) -> AnyArray:
    """Return labels as a bank stores them: Python's strings as NumPy's, others as they are."""
    if column.dtype.kind == "O" and all(isinstance(label, str) for label in column):
        return column.astype(np.str_)
    return column


def _check_label_type(labels: AnyArray) -> None:
    if labels.dtype.kind not in "iubU":
        raise InputError(f"labels of type {labels.dtype}; pass integers or strings.")
    if labels.dtype.kind == "u" and labels.max() > _LARGEST_LABEL:
        raise InputError(f"a label of {labels.max()}; pass integers below 2**63.")


def _text_dtype(labels: AnyArray, manifest: Manifest) -> np.dtype[Any]:
    """Return the type that text labels are stored in: that of the batches before if they fit."""
    if manifest.columns:
        before = manifest.dtype_of("labels")
        longest = max(map(len, labels.tolist()))
        if before.kind == "U" and before.itemsize >= 4 * longest:
            return before
    return labels.dtype.newbyteorder("<")


def _numbers(name: str, column: AnyArray, dtype: str) -> AnyArray:
    is_layer = name.startswith("layer.") and name != "layer."
    if name not in ("features", "logits") and not is_layer:
        raise InputError(
            f"{name!r} is not a column of a bank; use features, logits, labels or layer.NAME."
        )
    if column.ndim != 2 or not column.shape[1] or column.dtype.kind not in "fiub":
        raise InputError(
            f"{name} of shape {column.shape} and type {column.dtype}; "
            "pass numbers of shape (rows, width)."
        )
    wanted = "float32" if name == "logits" and dtype == "float16" else dtype
    with np.errstate(over="ignore"):
        cast = column.astype(np.dtype(wanted).newbyteorder("<"), order="C")
    if (np.isinf(cast) & np.isfinite(column)).any():
        raise _beyond(name, column, wanted)
    return cast


def _beyond(name: str, column: AnyArray, dtype: str) -> InputError:
    """Return the complaint about a column with numbers for which a type has no room."""
    if dtype == DTYPES[-1]:
        return InputError(f"{name} holds numbers beyond {dtype}; scale them down.")
    with np.errstate(over="ignore"):
        finite = column[np.isfinite(column)].astype(np.float64)
    largest = float(np.abs(finite).max())
    wider = DTYPES[DTYPES.index(dtype) + 1]
    return InputError(
        f"{name} holds {largest:g}, beyond {dtype}; use dtype={wider!r}, "
        "which write_bank takes from the features."
    )


def check_head_and_classes(head: Head | None, classes: Sequence[str] | None) -> None:
    """Check that a bank's head is one, and that its class names are a list of distinct ones."""
    HEAD.check("head", head)
    if classes is None:
        return
    if isinstance(classes, str) or not isinstance(classes, Iterable):
        raise InputError(f"classes is {a_kind(classes)}; pass a list of names.")
    twice = [name for name, count in Counter(map(str, classes)).items() if count > 1]
    if twice:
        raise InputError(f"the class {twice[0]!r} comes twice; give each a name of its own.")


def check_labels(folder: Path, manifest: Manifest, classes: Sequence[str]) -> None:
    """Check that the integer labels of a bank, which is all written, point to its class names."""
    if "labels" not in manifest.columns or manifest.dtype_of("labels").kind != "i":
        return
    file, shape = folder / column_file("labels"), manifest.shape_of("labels")
    labels = np.memmap(file, "<i8", "r", offset=HEADER, shape=shape)
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= len(classes):
        raise InputError(
            f"{folder}: labels from {low} to {high} for {len(classes)} class names; "
            "pass a name for each."
        )
