"""`typica info`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import RenderableType

from typica.bank import Bank, describe_bank
from typica.cli._app import new_app
from typica.cli._options import Json
from typica.cli._show import present, table
from typica.decide import describe_file
from typica.errors import listed
from typica.kinds import wrong_kind
from typica.progress import work

SHOWN = 8  # names of classes that are printed

app = new_app()


@app.command(epilog="Example: typica info train.bank --verify")
def info(
    path: Annotated[
        Path,
        typer.Argument(help="A detector that `typica fit` wrote, or a bank of `typica extract`."),
    ],
    verify: Annotated[
        bool, typer.Option("--verify", help="Read all data and check it against its checksums.")
    ] = False,
    json_file: Json = None,
) -> None:
    """Show what a detector's file or a bank holds."""
    if Bank.is_bank(path):
        description = _bank(path, verify)
    elif path.is_dir():
        raise wrong_kind(path, "a bank", "pass a bank of `typica extract`, or a detector's file")
    else:
        description = _file(path, verify)
    present(description, json_file, pairs(str(path), description))


def _bank(path: Path, verify: bool) -> dict[str, Any]:
    bank = Bank.open(path)
    description = describe_bank(bank)
    if verify:
        with work("verifying", len(bank)):
            description["verified"] = {"rows": len(bank), "bytes": bank.verify()}
    return description


def _file(path: Path, verify: bool) -> dict[str, Any]:
    description = describe_file(path)
    if verify:  # a detector's file is checked when it is read
        description["verified"] = {"bytes": description["bytes"]}
    return description


def pairs(title: str, description: dict[str, Any]) -> RenderableType:
    """Return a description as a table of two columns, with nested entries indented."""
    return table(title, ["", ""], _lines(description), text=2, header=False)


def _lines(description: dict[str, Any], indent: str = "") -> Iterator[tuple[str, str]]:
    for key, value in description.items():
        if key == "classes" and not indent:
            yield key, _classes(value["names"])
        elif isinstance(value, dict) and value:
            yield indent + key, ""
            yield from _lines(value, indent + "  ")
        elif isinstance(value, list | dict):
            yield indent + key, ", ".join(map(str, value)) or "-"
        else:
            yield indent + key, str(value)


def _classes(names: list[Any]) -> str:
    return f"{len(names)}: {listed(names, SHOWN)}"
