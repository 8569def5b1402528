"""Tell images from features: files, and lists of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from typica.bank import Bank
from typica.data._feature_parquet import parquet_columns
from typica.data.features import ENDINGS
from typica.errors import InputError, listed
from typica.kinds import NO_IMAGES, Kind, kind_of


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
    if ending in (".npy", ".npz"):
        return kind_of(path) == Kind.IMAGES
    if ending == ".parquet":
        return _in_parquet(path)
    return ending not in ENDINGS and kind_of(path) not in NO_IMAGES


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


def _in_parquet(path: Path) -> bool:
    try:
        columns = parquet_columns(path)
    except Exception:  # damaged files raise errors of many kinds
        return False
    return "image" in columns and "features" not in columns
