"""`typica choose`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from sklearn.model_selection import train_test_split

from typica.bank import Bank
from typica.bench.choose import Choice, leave_classes_out
from typica.bench.run import PAPER, make_detectors, wants_head
from typica.cli.app import Json, app
from typica.cli.extract import Split
from typica.cli.show import console, counting, error_console, percent, progress, table, write_json
from typica.data import find_head, open_images, read_features, read_labels, source_of
from typica.detectors import list_detectors
from typica.errors import InputError


@app.command(epilog="Example: typica choose --bank train.bank --images train/")
def choose(
    bank: Annotated[
        Path, typer.Option(help="A bank, or features with labels; --labels if the file holds none.")
    ],
    labels: Annotated[Path | None, typer.Option(help="Labels, if the bank holds none.")] = None,
    held_out: Annotated[
        Path | None,
        typer.Option(help="Held-out features with labels; a fifth of the bank if not given."),
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
    detectors: Annotated[
        str, typer.Option(help="all, paper, or names with commas between.")
    ] = "all",
    seed: Annotated[
        int, typer.Option(help="Of the split, the corruptions and the resampling.", min=0)
    ] = 0,
    json_file: Json = None,
) -> None:
    """Choose a detector with no OOD data: each class in turn plays the unknown."""
    names = {"all": list_detectors(), "paper": PAPER}.get(detectors, detectors.split(","))
    features, classes = _labelled(bank, labels)
    found = find_head(head, bank)
    if head is None and found is not None and not np.isin(classes, found.classes).all():
        found = None  # it knows other classes than these: none of its logits could be masked
    made = make_detectors(names, found)
    headless = [name for name, detector in made.items() if found is None and wants_head(detector)]
    if headless:
        error_console.print(
            f"left out, for they need a head for these classes: {', '.join(headless)}"
        )
        made = {name: detector for name, detector in made.items() if name not in headless}
    rows = np.arange(len(features))
    if held_out is not None:
        train, targets = features, classes
        known, known_labels = _labelled(held_out, None, source_of(bank))
    else:
        kept, rows = train_test_split(rows, test_size=0.2, stratify=classes, random_state=seed)
        train, targets, known, known_labels = (
            features[kept],
            classes[kept],
            features[rows],
            classes[rows],
        )
    near = None
    if images is not None:
        source = held_out if held_out is not None else bank
        pictures = open_images(images, split=split)
        near = _near(
            source,
            pictures,
            None if held_out is not None else rows,
            seed=seed,
            model=model,
            weights=weights,
        )
    with counting("leaving classes out", len(np.unique(targets))) as done:
        choice = leave_classes_out(
            made, train, targets, known, known_labels, near=near, seed=seed, on_done=done
        )
    if json_file != "-":
        show_choice(choice)
    if json_file is not None:
        write_json(choice.to_dict(), json_file)


def _near(path: Path, images: Any, rows: Any, **options: Any) -> dict[str, Any]:
    """Return the features of corrupted and mixed images of a bank, of some of its rows or of all."""
    from typica.bench.near import near_features  # noqa: PLC0415 (needs torch, which is an extra)

    if not Bank.is_bank(path):
        raise InputError(
            f"--images: {path} is no bank of `typica extract`; pass one, for its network is needed."
        )
    bank = Bank.open(path)
    with progress("corrupting and mixing", 0, unit="images/s"):
        return near_features(
            bank, images, np.arange(len(bank)) if rows is None else rows, **options
        )


def _labelled(
    path: Path, labels: Path | None, source: dict[str, Any] | None = None
) -> tuple[Any, Any]:
    table = read_features(path, source)
    features = table.features
    targets = read_labels(labels) if labels is not None else table.labels
    if targets is None:
        raise InputError(
            f"{path}: holds no labels; pass --labels, or a file with features and labels."
        )
    if len(targets) != len(features):
        raise InputError(
            f"{path}: {len(targets)} labels for {len(features)} rows; pass one label a row."
        )
    return features, targets


def show_choice(choice: Choice) -> None:
    """Print the verdict, a row a detector with what it rests on, and how to read it."""
    console.print(choice.verdict, style="bold", markup=False)
    console.print()
    rows = []
    for name, mean in choice.means.items():
        kinds = [
            float(np.mean(list(kind[name].values())))
            for kind in (choice.auroc, choice.near)
            if kind
        ]
        cells = [
            percent(mean),
            *(map(percent, kinds) if choice.near else ()),
            percent(choice.certainty[name]),
        ]
        rows.append([name, *cells, percent(choice.ahead[name]) if name in choice.ahead else ""])
    headings = ["classes left out", "near"] if choice.near else []
    console.print(table("", ["detector", "AUROC ↑", *headings, "best in %", "ahead in %"], rows))
    for name, error in choice.failed.items():
        console.print(f"{name}: {error}", style="red", markup=False)
    if choice.near:
        names = ", ".join(next(iter(choice.near.values())))
        console.print(
            f"near: images corrupted or mixed ({names}); the two kinds of unknown weigh the same.",
            style="dim",
        )
    console.print(
        "Mean AUROC with each class in turn as the unknown. When unknowns and rows are resampled: how often a detector "
        f"is best of all, and how often ahead of {choice.best} (a tie is half). The network has seen the class that "
        "plays the unknown, so all AUROCs are too high: read the order.",
        style="dim",
        markup=False,
    )
