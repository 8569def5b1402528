"""`typica sql`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from typica.cli._app import new_app
from typica.cli._option_checks import one_of, out_file
from typica.cli._options import Json
from typica.cli._show import write_json, write_text
from typica.decide import load_detector
from typica.errors import InputError
from typica.scale.sql import DIALECTS, MEANS, Script, fit_sql, score_sql

app = new_app()


@app.command(
    epilog="Example: typica sql ctm.safetensors --dialect postgres --table photos -o score.sql"
)
def sql(
    detector: Annotated[
        str,
        typer.Argument(
            help="A file that `typica fit` wrote: CTM, CW, Mahalanobis, MSP, Energy, MaxLogit. Or "
            "ctm, for class means that the server itself computes, see --train."
        ),
    ],
    dialect: Annotated[
        str, typer.Option(callback=one_of(tuple(DIALECTS)), help=f"{', '.join(DIALECTS)}.")
    ],
    table: Annotated[
        str, typer.Option(help="The table or view to score, e.g. schema.table.")
    ] = "embeddings",
    features: Annotated[
        str, typer.Option(help="Its column of features, an array of numbers.")
    ] = "embedding",
    id_column: Annotated[
        list[str] | None,
        typer.Option(help="A column to pass through; may be repeated. id if not given."),
    ] = None,
    means: Annotated[
        str, typer.Option(help="The table to create for the vectors of the classes.")
    ] = MEANS,
    train: Annotated[
        str | None,
        typer.Option(help="With ctm: the table of training rows to compute class means from."),
    ] = None,
    labels: Annotated[str, typer.Option(help="With --train: its column of class names.")] = "label",
    view: Annotated[
        str | None, typer.Option(help="Create a view of this name from the query.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Drop tables and views of these names first.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", callback=out_file, help="The file to write; printed if not given."
        ),
    ] = None,
    json_file: Json = None,
) -> None:
    """Write a detector's scoring as SQL, to run where the rows are.

    First come the statements that create its tables, then the query: id, score, nearest, and
    typical if the detector has a threshold.
    """
    fitted = _fit(detector, train, dialect, features, labels, means, replace)
    made = score_sql(
        _detector(detector, fitted),
        dialect,
        table=table,
        features=features,
        id_columns=["id"] if id_column is None else id_column,
        means=means,
        view=view,
        replace=replace,
    )
    if fitted is not None:
        made = Script(made.dialect, (*fitted.setup, *made.setup), made.query)
    if json_file is not None:
        write_json(made.to_dict(), json_file)
    if output is not None:
        write_text(str(made), str(output))
    elif json_file != "-":
        sys.stdout.write(str(made))


def _fit(
    detector: str,
    train: str | None,
    dialect: str,
    features: str,
    labels: str,
    means: str,
    replace: bool,
) -> Script | None:
    """Return the fit in SQL, where one is asked for."""
    if train is None:
        return None
    if detector.lower() != "ctm":
        raise InputError(f"{detector}: --train fits class means for ctm; name it, or leave it out.")
    return fit_sql(
        dialect, table=train, features=features, labels=labels, means=means, replace=replace
    )


def _detector(detector: str, fitted: Script | None) -> Any:
    """Return what to score with: a file's detector, or the name if SQL computes the means."""
    if fitted is not None:
        return "ctm"
    if detector.lower() == "ctm" and not Path(detector).exists():
        raise InputError("ctm: is a name, not a fitted detector; pass --train TABLE, or a file.")
    return load_detector(Path(detector))
