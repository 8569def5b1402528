"""`typica choose`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from typica.bench import CANNOT_SEE, Choice, choose_files
from typica.cli._app import new_app
from typica.cli._option_values import read_transform
from typica.cli._options import (
    Classes,
    Detectors,
    Json,
    MovedModel,
    MovedWeights,
    Split,
    Transform,
    Trust,
)
from typica.cli._show import dim, failures, present, table
from typica.data import read_classes
from typica.metrics import METRICS
from typica.written_numbers import percent

app = new_app()


@app.command(epilog="Example: typica choose train.bank --images train/")
def choose(
    data: Annotated[
        Path,
        typer.Argument(
            help="A bank, features with labels (--labels if the file holds none), or images in one "
            "folder per class, with --model.",
        ),
    ],
    labels: Annotated[
        Path | None, typer.Option(help="Labels, if the data hold none: a file, or a column.")
    ] = None,
    held_out: Annotated[
        Path | None,
        typer.Option(
            help="Held-out features with labels, or images; a fifth of the data if not given."
        ),
    ] = None,
    head: Annotated[
        Path | None, typer.Option(help="The last layer: weight, bias, classes; a bank has its own.")
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(help="The bank's images: changed versions of them play the unknown too."),
    ] = None,
    split: Split = None,
    model: MovedModel = None,
    weights: MovedWeights = None,
    transform: Transform = None,
    classes: Classes = None,
    trust: Trust = False,
    detectors: Detectors = "all",
    seed: Annotated[
        int, typer.Option(help="Seeds the split, the corruptions and the resampling.", min=0)
    ] = 0,
    json_file: Json = None,
) -> None:
    """Choose a detector with no OOD data: known inputs play the unknown."""
    choice = choose_files(
        data,
        labels=labels,
        held_out=held_out,
        head=head,
        images=images,
        split=split,
        model=model,
        weights=weights,
        transform=read_transform(transform),
        classes=None if classes is None else read_classes(classes),
        trust=trust,
        names=detectors,
        seed=seed,
    )
    present(choice.to_dict(), json_file, *shown_choice(choice))


def shown_choice(choice: Choice) -> list[RenderableType]:
    """Return what `typica choose` prints: its verdict, one row per detector, and how to read it."""
    auroc = METRICS["auroc"].label()
    columns = ["detector", auroc, *choice.kinds, "best in %", "ahead in %"]
    rows = [_row(choice, name) for name in choice.means]
    shown = table("", columns, rows, keep=(auroc, *choice.kinds))
    parts = [Text(choice.verdict, style="bold"), Text(), shown]
    parts += failures(choice.failed)
    parts.append(dim(choice.reading))
    return [*parts, dim(CANNOT_SEE)]


def _row(choice: Choice, name: str) -> list[str]:
    shares = [choice.means[name], *choice.by_kind(name).values(), choice.certainty[name]]
    cells = [name, *map(percent, shares)]
    cells.append(percent(choice.ahead[name]) if name in choice.ahead else "")
    return cells
