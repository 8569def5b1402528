"""The folder of a bank: whose it is, made for one, and unmade where nothing came of it."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from typica.bank._files import HEAD, MANIFEST, MANIFEST_NEXT, NAMES, OFFSETS
from typica.files import LOCK


def make_folder(path: Path) -> list[Path]:
    """Make a folder and those above it that are missing; return the ones that were made, the innermost first."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    return missing


def unmake_folder(path: Path, made: list[Path]) -> None:
    """Delete an unfinished bank's files, and then the folders that were made for it and are empty."""
    with contextlib.suppress(
        OSError
    ):  # somebody else has put something there; it is the first error that counts
        for file in path.iterdir():
            if file.name in (MANIFEST, LOCK) or is_ours(file.name):
                file.unlink()
        for folder in made:
            folder.rmdir()


def is_ours(name: str) -> bool:
    """Tell whether a file is one that an interrupted run may have left."""
    ours = (MANIFEST_NEXT, NAMES, OFFSETS, HEAD, "features.npy", "logits.npy", "labels.npy")
    return (
        name in ours
        or name.startswith(f".{HEAD}.")
        or (name.startswith("layer.") and name.endswith(".npy"))
    )


def differences(there: Any, here: Any, path: str = "") -> list[str]:
    """Say in which places two JSON values differ.

    >>> differences({"model": "a", "size": {"x": 1}}, {"model": "a", "size": {"x": 2}})
    ['size.x is 1 there and 2 here']
    """
    if isinstance(there, dict) and isinstance(here, dict):
        keys = sorted({*there, *here})
        return [
            line
            for key in keys
            for line in differences(there.get(key), here.get(key), f"{path}.{key}")
        ]
    return [] if there == here else [f"{path.lstrip('.')} is {there!r} there and {here!r} here"]
