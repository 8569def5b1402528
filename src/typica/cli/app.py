"""The application: its options, and the commands that register with it."""

from __future__ import annotations

from typing import Annotated

import typer

import typica
from typica.cli.checks import out_text
from typica.cli.show import console

app = typer.Typer(
    help="Know when a trained classifier is looking at something it does not know.",
    epilog="Start with: typica demo. Any command takes --debug to show the traceback of an error.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[
    str | None,
    typer.Option(
        "--json", metavar="FILE", callback=out_text, help="Write the result as JSON; - prints it."
    ),
]
Tpr = Annotated[float, typer.Option(help="Share of in-distribution inputs to keep.")]


def _version(wanted: bool) -> None:
    if wanted:
        console.print(f"typica {typica.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass
