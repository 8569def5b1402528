"""The folder of a bank: recognised, made, taken back if nothing was written, deleted."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typica.bank._files import HEAD, NAMES, OFFSETS
from typica.bank._manifest import MANIFEST, MANIFEST_NEXT, read_manifest
from typica.errors import InputError, listed
from typica.files import DELETES_OPEN_FILES, LOCK, lock_folder
from typica.origin import PROBE, SAME_ANSWER, probe_difference

_SHA256 = re.compile("[0-9a-f]{64}")


def make_bank_folder(path: Path) -> list[Path]:
    """Make a bank's folder and the missing ones above it; return these, the innermost first."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    return missing


def unmake_bank_folder(path: Path, made: list[Path]) -> None:
    """Delete an unfinished bank's files, then the folders that were made for it and are empty."""
    # Somebody else may have put something there; only the first error counts.
    with contextlib.suppress(OSError):
        for file in _files_of_bank(path):
            file.unlink()
        for folder in made:
            folder.rmdir()


def _files_of_bank(folder: Path) -> list[Path]:
    """Return the files of a bank, the manifest last: while that is there it is still a bank."""
    files = [file for file in folder.iterdir() if _is_of_bank(file.name)]
    return sorted(files, key=lambda file: file.name == MANIFEST)


def _is_of_bank(name: str) -> bool:
    return name in (MANIFEST, LOCK) or is_ours(name)


def is_bank(folder: Path) -> bool:
    """Tell whether a folder is a bank's, finished or not."""
    try:
        with (folder / MANIFEST).open("rb") as file:
            return file.read(9) == b'{\n "bank"'
    except OSError:
        return False


def is_ours(name: str) -> bool:
    """Tell whether a file in a bank's folder is one that an interrupted run may have left."""
    ours = (MANIFEST_NEXT, NAMES, OFFSETS, HEAD, "features.npy", "logits.npy", "labels.npy")
    layer = name.startswith("layer.") and name.endswith(".npy")
    return name in ours or layer or name.startswith(f".{HEAD}.")


def differing_settings(there: Any, here: Any, path: str = "") -> list[str]:
    """Say in which settings the bank that is there differs from the one to be written here.

    >>> differing_settings({"model": "a", "size": {"x": 1}}, {"model": "a", "size": {"x": 2}})
    ['size.x is 1 there and 2 here']
    """
    if isinstance(there, dict) and isinstance(here, dict):
        lines = []
        for key in sorted({*there, *here}):
            if key == PROBE and not path:
                lines += _changed(there, here)
            else:
                lines += differing_settings(there.get(key), here.get(key), f"{path}.{key}")
        return lines
    if there == here:
        return []
    return [f"{path.lstrip('.')} is {_shown(there)} there and {_shown(here)} here"]


def _changed(there: dict[str, Any], here: dict[str, Any]) -> list[str]:
    """Say so if the network, the same by name and weights, gives other numbers than it did."""
    apart = probe_difference(there.get(PROBE), here.get(PROBE))
    if apart <= SAME_ANSWER:
        return []
    return [
        f"{here.get('model')} has changed: its answer to one fixed image is another than then, by "
        f"{apart:.2g} of the largest value"
    ]


def _shown(value: Any) -> str:
    """Return a setting of a bank for a message: of a SHA-256 only the beginning."""
    if isinstance(value, str) and _SHA256.fullmatch(value):
        return f"{value[:16]}..."
    return repr(value)


def bank_settings(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Return how a bank was made, without opening it; None where there is no finished bank."""
    folder = Path(path)
    if not is_bank(folder):
        return None
    manifest = read_manifest(folder)
    return manifest.settings if manifest.complete else None


def remove_if_changed(path: str | os.PathLike[str], identity: Mapping[str, Any]) -> bool:
    """Delete a bank, finished or not, whose network of code has changed since; tell whether it was.

    identity: of the bank that is wanted there now.
    """
    folder = Path(path)
    if not is_bank(folder) or not _changed(read_manifest(folder).identity, dict(identity)):
        return False
    remove_bank(folder)
    return True


def remove_bank(path: str | os.PathLike[str]) -> None:
    """Delete a bank, finished or not, if there is one; a link to its folder is kept.

    It refuses, and leaves alone, a bank that is being written, a bank with other files in its
    folder, and a folder that is not a bank.
    """
    folder = Path(path)
    if is_bank(folder):
        _check_only_ours(folder)
        with contextlib.ExitStack() as lock:
            lock.callback(os.close, lock_folder(folder, "writing this bank"))
            if not DELETES_OPEN_FILES:  # such as that of the lock
                lock.close()
            for file in _files_of_bank(folder):
                file.unlink()
            with contextlib.suppress(OSError):  # a link, or somebody has just put something there
                folder.rmdir()
    elif folder.exists() and not _is_empty_folder(folder):
        raise InputError(f"{path}: holds something that is not a bank; choose another folder.")


def _check_only_ours(folder: Path) -> None:
    """Raise if a bank's folder holds other files."""
    others = sorted(entry.name for entry in folder.iterdir() if not _is_of_bank(entry.name))
    if others:
        raise InputError(
            f"{folder}: holds more than a bank ({listed(others, 3)}); move that away, "
            "or choose another folder."
        )


def _is_empty_folder(path: Path) -> bool:
    """Tell whether a folder holds no more than a bank that was stopped before it began."""
    return path.is_dir() and {entry.name for entry in path.iterdir()} <= {MANIFEST_NEXT, LOCK}
