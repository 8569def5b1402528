"""Packages that are not always there: found, or a message that says what to install."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Any

from typica.errors import InputError

_LAST_PYTHON = {"mlserver": (3, 12)}  # with a later one, the extra of these modules is empty


def need(module: str, extra: str) -> Any:
    """Import a module of an extra, or say how to install it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name not in (package, module):
            raise
        raise _missing(package, extra) from None


def check_installed(module: str, extra: str) -> None:
    """Raise what `need` would, and import nothing."""
    if importlib.util.find_spec(module) is None:
        raise _missing(module, extra)


def _missing(module: str, extra: str) -> InputError:
    last = _LAST_PYTHON.get(module)
    if last is not None and sys.version_info[:2] > last:
        newest = ".".join(map(str, last))
        return InputError(
            f"{module} is not installed, and stops at Python {newest}; with that one, install the "
            f"extra {extra!r}: pip install 'typica[{extra}]'."
        )
    return InputError(
        f"{module} is not installed; install the extra {extra!r}: pip install 'typica[{extra}]'."
    )
