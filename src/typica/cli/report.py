"""`typica report` and `typica plot`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from typica.bench.plot import KINDS
from typica.bench.plot import plot as draw
from typica.bench.report import write_report
from typica.cli.app import app
from typica.cli.checks import one_of, out_file
from typica.cli.show import error_console

Result = Annotated[
    Path, typer.Argument(metavar="RESULT_FOLDER", help="A folder that `typica bench -o` wrote.")
]


@app.command(epilog="Example: typica report results -o report.html")
def report(
    result: Result,
    output: Annotated[
        Path, typer.Option("--output", "-o", callback=out_file, help="The page to write.")
    ] = Path("report.html"),
) -> None:
    """Write the report of a benchmark: one page that needs no network, with a threshold to move."""
    written = write_report(result, output)
    error_console.print(f"wrote {written}, {written.stat().st_size / 1e6:.1f} MB")


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
        str, typer.Option(callback=one_of(KINDS), help=f"{', '.join(KINDS)}.")
    ] = "histogram",
    method: Annotated[
        list[str] | None, typer.Option(help="A method to draw; may be repeated.")
    ] = None,
) -> None:
    """Draw a benchmark's result for a paper."""
    error_console.print(f"wrote {draw(result, output, kind, method)}")
