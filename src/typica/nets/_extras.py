"""Packages that are not always there, and files: found, or a message that says what to do."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
from pathlib import Path
from typing import Any

from typica.errors import InputError


def need(module: str, extra: str, where: str) -> Any:
    """Import a module of an extra, or say how to install it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise
        raise _missing(error.name, extra, where) from None


def check_installed(module: str, extra: str, where: str) -> None:
    """Raise what `need` would, and import nothing."""
    if importlib.util.find_spec(module) is None:
        raise _missing(module, extra, where)


def _missing(module: str, extra: str, where: str) -> InputError:
    return InputError(
        f"{where}: {module} is not installed; install the extra {extra!r}: pip install 'typica[{extra}]'."
    )


def existing(path: str | Path, where: str) -> Path:
    """Return the path of a file that is there."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{where}: there is no file {path}; check the path.")
    return path


def sha256(*files: Path) -> str:
    """Return the SHA-256 of a file, or of several, one after the other."""
    digest = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()
