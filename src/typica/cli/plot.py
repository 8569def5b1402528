"""`typica plot`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from typica.bench import PLOTS
from typica.bench import plot as draw
from typica.cli._app import new_app
from typica.cli._option_checks import one_of, out_file
from typica.cli._show import say_written
from typica.cli.report import Result

app = new_app()


@app.command(epilog="Example: typica plot results -o roc.svg --kind roc --method ctm --method knn")
def plot(
    result: Result,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", callback=out_file, help="The figure to write: .png, .svg or .pdf."
        ),
    ],
    kind: Annotated[
        str, typer.Option(callback=one_of(PLOTS), help=f"{', '.join(PLOTS)}.")
    ] = "histogram",
    method: Annotated[
        list[str] | None, typer.Option(help="A method to draw; may be repeated.")
    ] = None,
) -> None:
    """Draw a benchmark's result for a paper."""
    say_written(draw(result, output, kind, method))
