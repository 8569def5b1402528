"""`typica choose`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import RenderableType
from rich.text import Text

from typica.bench import Choice, choose_files
from typica.cli.app import new_app
from typica.cli.checks import argument_of, read_transform
from typica.cli.options import Classes, Detectors, Json, Split, Transform, Trust
from typica.cli.show import dim, failures, percent, present, table
from typica.data import read_classes

app = new_app()


@app.command(epilog="Example: typica choose train.bank --images train/")
def choose(
    data: Annotated[
        Path | None,
        typer.Argument(
            metavar="DATA",
            help="A bank, features with labels (--labels if the file holds none), or images in one "
            "folder per class, with --model.",
            show_default=False,
        ),
    ] = None,
    bank: Annotated[Path | None, typer.Option(hidden=True)] = None,
    labels: Annotated[Path | None, typer.Option(help="Labels, if the data hold none.")] = None,
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
        typer.Option(help="The bank's images: corrupted and mixed ones play the unknown as well."),
    ] = None,
    split: Split = None,
    model: Annotated[
        str | None, typer.Option(help="For --images: the model, if it has moved.")
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(help="For --images: the checkpoint, if it has moved.")
    ] = None,
    transform: Transform = None,
    classes: Classes = None,
    trust: Trust = False,
    detectors: Detectors = "all",
    seed: Annotated[
        int, typer.Option(help="Of the split, the corruptions and the resampling.", min=0)
    ] = 0,
    json_file: Json = None,
) -> None:
    """Choose a detector with no OOD data: each class in turn plays the unknown."""
    choice = choose_files(
        argument_of(data, bank, "--bank", "DATA"),
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
    """Return the verdict, one row per detector with what it rests on, and how to read it."""
    headings = ["classes left out", "near"] if choice.near else []
    columns = ["detector", "AUROC ↑", *headings, "best in %", "ahead in %"]
    rows = [_row(choice, name) for name in choice.means]
    parts = [Text(choice.verdict, style="bold"), Text(), table("", columns, rows)]
    parts += failures(choice.failed)
    if choice.near:
        names = ", ".join(next(iter(choice.near.values())))
        near = f"near: images corrupted or mixed ({names})"
        parts.append(dim(f"{near}; the two kinds of unknown weigh the same."))
    reading = (
        "Mean AUROC with each class in turn as the unknown. When unknowns and rows are resampled: "
        "how often a detector is best of all, and how often ahead of "
        f"{choice.best} (a tie is half). The network has seen the class that plays the unknown, so "
        "all AUROCs are too high: read the order."
    )
    return [*parts, dim(reading)]


def _row(choice: Choice, name: str) -> list[str]:
    cells = [name, percent(choice.means[name])]
    if choice.near:
        kinds = [choice.auroc[name], choice.near[name]]
        cells += [percent(float(np.mean(list(kind.values())))) for kind in kinds]
    cells.append(percent(choice.certainty[name]))
    cells.append(percent(choice.ahead[name]) if name in choice.ahead else "")
    return cells
