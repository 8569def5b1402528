"""Arrays by name: .npy, .npz and .safetensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from typica.data._table import Features, label_name
from typica.errors import FormatError

Arrays = dict[str, NDArray[Any]]


def read_arrays(path: Path) -> Arrays:
    """Return the arrays of a file by name; that of an .npy file is called 'features'."""
    return ARRAY_READERS[path.suffix](path)


def features_among(arrays: Mapping[str, NDArray[Any]], path: Path) -> Features:
    """Choose the features, by name or because there is only one array, and the labels if any."""
    label = label_name(arrays)
    others = {name: array for name, array in arrays.items() if name != label}
    if "features" not in others and len(others) != 1:
        found = ", ".join(sorted(others)) or "nothing"
        raise FormatError(f"{path}: holds {found}; name the array of features 'features'.")
    features = others["features"] if "features" in others else next(iter(others.values()))
    return Features(features, None if label is None else arrays[label])


def labels_among(arrays: Mapping[str, NDArray[Any]], path: Path) -> NDArray[Any]:
    """Choose the labels, by name or because there is only one array."""
    label = label_name(arrays)
    if label is not None:
        return arrays[label]
    if len(arrays) != 1:
        found = ", ".join(sorted(arrays))
        raise FormatError(f"{path}: holds {found}; name the array of labels 'labels'.")
    return next(iter(arrays.values()))


def _read_npy(path: Path) -> Arrays:
    """Return the array, memory-mapped: it may be larger than memory."""
    try:
        return {"features": np.load(path, mmap_mode="r", allow_pickle=False)}
    except (ValueError, EOFError, OSError) as error:
        raise FormatError(
            f"{path}: not a whole .npy file of numbers or strings ({error}); write it again."
        ) from None


def _read_npz(path: Path) -> Arrays:
    try:
        with np.load(path, allow_pickle=False) as file:
            return dict(file)
    except Exception as error:  # zipfile, zlib and NumPy raise many kinds for a damaged archive
        raise FormatError(
            f"{path}: not a whole .npz file of numbers or strings ({error}); write it again."
        ) from None


def _read_safetensors(path: Path) -> Arrays:
    try:
        with safe_open(path, framework="numpy") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except (SafetensorError, OSError, TypeError) as error:
        raise FormatError(
            f"{path}: not a whole .safetensors file ({error}); write it again."
        ) from None


ARRAY_READERS: dict[str, Callable[[Path], Arrays]] = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".safetensors": _read_safetensors,
}
