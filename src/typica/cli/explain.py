"""`typica explain`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

import typica
from typica.cli._app import new_app
from typica.cli._options import (
    Alpha,
    Backend,
    Confidence,
    Json,
    MovedModel,
    MovedWeights,
    OnError,
    Tpr,
    Transform,
    Trust,
    network,
)
from typica.cli._show import present
from typica.data import holds_images, read_known
from typica.decide import judge, load_detector, origin_of
from typica.detectors import Estimator, column_names, reads_layers, reads_logits
from typica.errors import InputError, counted
from typica.explanation import Explanation
from typica.nets import InputReader, check_no_network
from typica.progress import note

app = new_app()


@app.command(epilog="Example: typica explain ctm.safetensors photo.jpg --bank train.bank")
def explain(
    detector: Annotated[
        Path, typer.Argument(help="A file that `typica fit` or `typica calibrate` wrote.")
    ],
    file: Annotated[Path, typer.Argument(help="An image, or features; or a folder, or a bank.")],
    row: Annotated[
        int | None,
        typer.Option(help="Which input of the file, from 0; the strangest if not given.", min=0),
    ] = None,
    bank: Annotated[
        Path | None, typer.Option(help="Known inputs; the nearest of them are named.")
    ] = None,
    alpha: Alpha = None,
    tpr: Tpr = None,
    confidence: Confidence = None,
    model: MovedModel = None,
    weights: MovedWeights = None,
    transform: Transform = None,
    trust: Trust = False,
    backend: Backend = "auto",
    on_error: OnError = "stop",
    json_file: Json = None,
) -> None:
    """Tell one input's story: why it was accepted or rejected, what it looks like."""
    estimator = load_detector(detector)
    known = None if bank is None else _known(estimator, bank)
    levels = {"alpha": alpha, "tpr": tpr, "confidence": confidence}
    seen_by = network(model, weights, transform, trust, backend, on_error)
    if holds_images(file):
        place, told = _of_images(estimator, file, row, known, levels | seen_by)
    else:
        check_no_network(seen_by, "these are features")
        place, told = _of_features(estimator, file, row, known, levels)
    title = f"{file}, row {place}" if told.file is None else told.file
    document = {"input": title, "row": place, **told.to_dict()}
    present(document, json_file, Text(title, style="bold"), *map(Text, told.parts()))


def _known(estimator: Estimator, bank: Path) -> Any:
    """Return the known inputs that the command was given, as the detector reads them."""
    logits, columns = reads_logits(estimator), column_names(estimator)
    known = read_known(bank, origin_of(estimator), logits=logits, columns=columns)
    if reads_layers(estimator) is None:
        return known
    return replace(known, features=InputReader.of(estimator).rows(bank))


def _of_features(
    estimator: Estimator, file: Path, row: int | None, known: Any, levels: dict[str, Any]
) -> tuple[int, Explanation]:
    """Return which row it is, and its story."""
    rows = InputReader.of(estimator).rows(file)
    _check_row(row, len(rows), file)
    if row is None:
        strangest = judge(estimator, rows, **levels).sort()[0].row
        row = 0 if strangest is None else strangest
        _say_which(row, len(rows))
    return row, typica.explain(estimator, rows[row : row + 1], known, **levels)[0]


def _of_images(
    estimator: Estimator, file: Path, row: int | None, known: Any, options: dict[str, Any]
) -> tuple[int, Explanation]:
    """Return which image it is, and its story."""
    from typica.nets import explain_images  # noqa: PLC0415 (needs torch, which is an extra)

    every = explain_images(estimator, file, known, **options)
    _check_row(row, len(every), file)
    if row is None:
        row = min(range(len(every)), key=lambda i: every[i].rank)
        _say_which(row, len(every))
    return row, every[row]


def _check_row(row: int | None, count: int, file: Path) -> None:
    if row is not None and row >= count:
        has = counted(count, "input")
        raise InputError(f"--row {row}: {file} has {has}; pass 0 to {count - 1}.")


def _say_which(row: int, count: int) -> None:
    if count > 1:
        note(f"the strangest of {count} inputs, number {row}; --row chooses another")
