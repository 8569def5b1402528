"""Tell images from features: files, and lists of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from typica.bank import Bank
from typica.data._feature_parquet import parquet_columns
from typica.data.features import ENDINGS
from typica.errors import InputError, listed
from typica.kinds import NO_IMAGES, kind_of


def holds_images(path: str | Path) -> bool:
    """Tell whether a path is to be read as images; feature files and banks are not.

    Folders that are not banks, image files and archives hold images; so does an .npz with an array
    `images`, an .npy of whole bytes in three or four dimensions, and a .parquet with a column
    `image` and none of `features`. What cannot be read is left to the reader to complain about.
    """
    path = Path(path)
    if path.is_dir():
        return not Bank.is_bank(path)
    ending = path.suffix.lower()
    look_inside = _INSIDE.get(ending)
    if look_inside is None:
        return ending not in ENDINGS and kind_of(path) not in NO_IMAGES
    try:
        return look_inside(path)
    except Exception:  # of many kinds, as damaged files have it
        return False


def are_images(source: Any) -> bool:
    """Tell whether a source is images for a network, and not features that a detector reads.

    source: a path, a list of such, or images. Features and images together are refused.
    """
    if not isinstance(source, Sequence) or isinstance(source, str):
        return not isinstance(source, str | os.PathLike) or holds_images(Path(source))
    kinds: dict[bool, list[Any]] = {False: [], True: []}
    for part in source:
        kinds[are_images(part)].append(part)
    if all(kinds.values()):
        raise InputError(
            f"features ({listed(kinds[False], 3)}) and images ({listed(kinds[True], 3)}) cannot be "
            "read together; pass one kind."
        )
    return bool(kinds[True])


def _in_npy(path: Path) -> bool:
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    return array.dtype == np.uint8 and array.ndim in (3, 4)


def _in_npz(path: Path) -> bool:
    with np.load(path, allow_pickle=False) as file:
        return "images" in file.files


def _in_parquet(path: Path) -> bool:
    columns = parquet_columns(path)
    return "image" in columns and "features" not in columns


_INSIDE: dict[str, Callable[[Path], bool]] = {
    ".npy": _in_npy,
    ".npz": _in_npz,
    ".parquet": _in_parquet,
}
