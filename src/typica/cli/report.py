"""`typica report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from typica.bench import write_report
from typica.bench.published import publications
from typica.cli._app import new_app
from typica.cli._option_checks import one_of, out_file
from typica.cli._show import say_written

Result = Annotated[
    Path, typer.Argument(metavar="RESULT_FOLDER", help="A folder that `typica bench -o` wrote.")
]

app = new_app()


@app.command(epilog="Example: typica report results -o report.html")
def report(
    result: Result,
    output: Annotated[
        Path, typer.Option("--output", "-o", callback=out_file, help="The page to write.")
    ] = Path("report.html"),
    against: Annotated[
        str | None,
        typer.Option(
            callback=one_of(tuple(publications())),
            help=f"Lead with the sets that were published too: {', '.join(publications())}.",
        ),
    ] = None,
) -> None:
    """Write a benchmark's report: one page that needs no network, with a threshold to move."""
    written = write_report(result, output, against=against)
    say_written(f"{written}, {written.stat().st_size / 1e6:.1f} MB")
