"""`typica suite list`, `typica suite init` and `typica suite show`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from typica.bench import init_text, list_suites, load_suite, suite_text
from typica.cli._app import new_app
from typica.cli._option_checks import out_file
from typica.cli._options import Json
from typica.cli._show import console, present, say, table, write_json
from typica.errors import InputError
from typica.files import atomic_path

app = new_app(
    help="See the benchmark suites, and write one of your own.",
    epilog="Example: typica suite init my.toml",
    no_args_is_help=True,
)


@app.command("list", epilog="Example: typica suite list")
def list_(json_file: Json = None) -> None:
    """List the suites that come with Typica."""
    suites = {name: load_suite(name) for name in list_suites()}
    rows = []
    for name, suite in suites.items():
        rows.append([name, suite.title, suite.published.by if suite.published else ""])
    document = {name: suite.to_dict() for name, suite in suites.items()}
    columns = ["suite", "what it measures", "--against"]
    present(document, json_file, table("", columns, rows, text=3))


@app.command(epilog="Example: typica suite init my.toml")
def init(
    path: Annotated[Path, typer.Argument(callback=out_file, help="The file to write.")],
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write a commented suite to start your own from."""
    if path.exists() and not force:
        raise InputError(f"{path}: exists already; pass another name, or --force.")
    with atomic_path(path) as temporary:
        temporary.write_text(init_text(), encoding="utf-8")
    say(f"wrote {path}; edit it, then run: typica bench {path}")


@app.command(epilog="Example: typica suite show cifar10-densenet")
def show(
    suite: Annotated[str, typer.Argument(help="A suite's name or TOML file.")],
    json_file: Json = None,
) -> None:
    """Show a suite as it is written, or everything that is wrong with it."""
    described = load_suite(suite)
    if json_file != "-":
        console.print(suite_text(suite), markup=False, soft_wrap=True, end="")
    if json_file is not None:
        write_json(described.to_dict(), json_file)
