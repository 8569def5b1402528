"""Arrays by name: .npy, .npz and .safetensors."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from safetensors import safe_open

from typica.arrays import AnyArray
from typica.bombs import check_growth
from typica.data._feature_table import UNNAMED, Features, NamedColumns, label_name, sort_columns
from typica.errors import FormatError
from typica.files import reading

Arrays = dict[str, AnyArray]

_NPY = b"\x93NUMPY"  # how every .npy file begins
_FOREIGN = ("BF16", "F8")  # beginnings of types that safetensors has and NumPy lacks


def read_arrays(path: Path) -> Arrays:
    """Return the arrays of a file by name; that of an .npy file is called 'features'."""
    return ARRAY_READERS[path.suffix.lower()](path)


def array_names(path: Path) -> list[str]:
    """Return the names of a file's arrays; none of an .npy file, whose array has no name."""
    ending = path.suffix.lower()
    if ending == ".npy":
        return []
    if ending == ".npz":
        with np.load(path, allow_pickle=False) as file:
            return list(file.files)
    with safe_open(path, framework="numpy") as file:
        return list(file.keys())


def features_among(
    arrays: Mapping[str, AnyArray], path: Path, wanted: NamedColumns = UNNAMED
) -> Features:
    """Choose the features, by name or because there is only one array, and the labels if any."""
    found = sort_columns(arrays, wanted, path)
    others = {name: arrays[name] for name in found.features}
    labels = None if found.labels is None else arrays[found.labels]
    groups = None if found.groups is None else arrays[found.groups]
    return Features(_features_of(others, path), labels, groups=groups)


def _features_of(arrays: Arrays, path: Path) -> AnyArray:
    if "features" in arrays:
        return arrays["features"]
    if len(arrays) != 1:
        found = ", ".join(sorted(arrays)) or "nothing"
        raise FormatError(f"{path}: holds {found}; name the array of features 'features'.")
    return next(iter(arrays.values()))


def labels_among(arrays: Mapping[str, AnyArray], path: Path) -> AnyArray:
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
    return {"features": load_npy(path)}


def load_npy(path: Path) -> AnyArray:
    """Return the array of an .npy file, memory-mapped."""
    with reading(path, "not a whole .npy file of numbers or strings"):
        _check_npy(path)
        array: AnyArray = np.load(path, mmap_mode="r", allow_pickle=False)
        return array


def _check_npy(path: Path) -> None:
    """Refuse a file that only has the ending: NumPy would suggest to read it as a pickle."""
    with path.open("rb") as file:
        begins = file.read(len(_NPY))
    if begins != _NPY:
        raise FormatError(f"{path}: is not an .npy file, whatever its name; write it with np.save.")


def load_npz(path: Path) -> Arrays:
    """Return the arrays of an .npz file by name."""
    with reading(path, "not a whole .npz file of numbers or strings"):
        with zipfile.ZipFile(path) as archive:
            check_growth(path, sum(member.file_size for member in archive.infolist()))
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
        for name, array in arrays.items():
            if not isinstance(array, np.ndarray):  # NumPy gives the bytes of other members
                raise TypeError(f"{name} is not an array")
        return arrays


def _read_safetensors(path: Path) -> Arrays:
    with (
        reading(path, "not a whole .safetensors file"),
        safe_open(path, framework="numpy") as file,
    ):
        arrays = {}
        for name in file.keys():  # noqa: SIM118 (not a mapping)
            kind = file.get_slice(name).get_dtype()
            if kind.startswith(_FOREIGN):
                raise FormatError(
                    f"{path}: {name} is of type {kind}, which NumPy lacks; write it as float32."
                )
            arrays[name] = file.get_tensor(name)
        return arrays


ARRAY_READERS: dict[str, Callable[[Path], Arrays]] = {
    ".npy": _read_npy,
    ".npz": load_npz,
    ".safetensors": _read_safetensors,
}
