"""`typica data get` and `typica data list`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from typica.cli._app import new_app
from typica.cli._options import Json
from typica.cli._show import complain, present, say, table
from typica.data.sets import (
    benchmark_set,
    describe_set,
    get_set,
    list_sets,
    size_text,
)
from typica.errors import InputError
from typica.files import home

Root = Annotated[
    Path | None,
    typer.Option(
        "--root", help="Folder of the sets; $TYPICA_HOME or ~/.cache/typica if not given."
    ),
]

app = new_app(
    help="Get the benchmark sets, and see which are here.",
    epilog="Example: typica data get svhn textures",
    no_args_is_help=True,
)


@app.command(epilog="Example: typica data get svhn textures")
def get(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME...", help="Sets, as `data list` has them.")
    ] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="Every set that has a public address.")
    ] = False,
    root: Root = None,
) -> None:
    """Download sets, check and unpack them; run it again, and it resumes where it stopped."""
    if bool(names) == all_:
        raise InputError(
            "data get: pass the names of sets, or --all; `typica data list` shows them."
        )
    wanted = names or [name for name in list_sets() if benchmark_set(name).files]
    for name in wanted:
        benchmark_set(name)  # says what is misspelt before anything is fetched
    if len(wanted) == 1:
        _get(wanted[0], root)
        return
    failed = [name for name in wanted if not _got(name, root)]
    if failed:
        missing = f"{len(failed)} of {len(wanted)} sets are missing ({', '.join(failed)})"
        raise InputError(f"data get: {missing}; see above.")


def _got(name: str, root: Path | None) -> bool:
    """Get a set and tell whether that worked; if not, say why, and let others be fetched."""
    try:
        _get(name, root)
    except (InputError, OSError) as error:
        complain(f"error: {error}", style="red")
        return False
    return True


def _get(name: str, root: Path | None) -> None:
    say(f"{name}: {get_set(name, root)}")


@app.command("list", epilog="Example: typica data list --json -")
def list_(root: Root = None, json_file: Json = None) -> None:
    """List the benchmark sets: what they are, how large, and where they are if they are here."""
    described = {name: describe_set(name, root) for name in list_sets()}
    rows = []
    for name, entry in described.items():
        download = size_text(entry["bytes"]) if entry["files"] else "by hand"
        rows.append([name, entry["title"], "here" if entry["path"] else "", download])
    columns = ["set", "what it is", "", "download"]
    present(
        described,
        json_file,
        table(f"Sets in {root or home()}", columns, rows, text=3),
        Text("Get one with: typica data get NAME. --json shows addresses, checksums and licences."),
    )
