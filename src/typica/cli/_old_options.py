"""Options of version 0.1 that are arguments now; they go with the next version."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeVar

import typer

from typica.errors import InputError
from typica.progress import note

OldTestFeatures = Annotated[Path | None, typer.Option("--id", hidden=True)]
OldBank = Annotated[Path | None, typer.Option("--bank", hidden=True)]
OldImages = Annotated[list[Path] | None, typer.Option("--images", hidden=True)]

T = TypeVar("T")


def argument_of(value: T | None, option: T | None, old: str, name: str) -> T:
    """Return an argument's value, or that of the option it used to be, with a note to the user."""
    given = option if value is None else value
    if given is None:
        raise InputError(f"{name} is missing; name it after the command, see --help.")
    if option is None:
        return given
    if value is not None:
        raise InputError(f"{name} and {old} are the same; leave out {old}.")
    note(f"{old} will be removed in 0.3; pass {name} as an argument, without {old}")
    return given
