"""`typica evaluate` and `typica compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from numpy.typing import NDArray
from rich.console import RenderableType

import typica
from typica.arrays import as_floating, check_finite, row_blocks
from typica.bench.run import PAPER, make_detectors, wants_head
from typica.bench.run import compare as run_comparison
from typica.cli.app import Json, Tpr, app
from typica.cli.checks import one_of
from typica.cli.decide import unwrapped
from typica.cli.show import (
    comparison_table,
    console,
    counting,
    error_console,
    evaluation_table,
    footnote,
    percent,
    progress,
    table,
    write_json,
)
from typica.data import find_head, read_features, read_labels, source_of
from typica.decide import remembered
from typica.detectors import final_detector, list_detectors
from typica.errors import InputError, about
from typica.metrics import CONVENTIONS, evaluate_many
from typica.nets._input import reads_logits


@app.command(
    epilog="Example: typica evaluate ctm.safetensors --id test.npy --ood svhn=svhn.npy --ood textures=dtd.npy"
)
def evaluate(
    detector: Annotated[Path, typer.Argument(help="A file that `typica fit` wrote.")],
    in_distribution: Annotated[Path, typer.Option("--id", help="In-distribution test features.")],
    ood: Annotated[list[str], typer.Option(help="An OOD set, NAME=FILE; may be repeated.")],
    tpr: Tpr = 0.95,
    convention: Annotated[
        str,
        typer.Option(
            callback=one_of(CONVENTIONS), help=f"How FPR is defined: {', '.join(CONVENTIONS)}."
        ),
    ] = "first",
    bootstrap: Annotated[
        int, typer.Option(help="Resamples for 95 % confidence intervals.", min=0)
    ] = 0,
    json_file: Json = None,
) -> None:
    """Measure how well a detector tells in-distribution from OOD features."""
    estimator = unwrapped(typica.load(detector))
    final = final_detector(estimator)
    source = remembered(estimator)
    logits = reads_logits(estimator, "evaluate")
    known = _rows(in_distribution, source, logits=logits)
    sets = {
        name: _rows(path, source, known.shape[1], logits=logits)
        for name, path in _named_files(ood).items()
    }
    with progress("scoring", len(known) + sum(map(len, sets.values()))):
        known_scores = estimator.score_samples(known)
        scores = {name: estimator.score_samples(rows) for name, rows in sets.items()}
    evaluation = evaluate_many(
        final.kind, known_scores, scores, tpr=tpr, convention=convention, bootstrap=bootstrap
    )
    if json_file != "-":
        title = f"{final.kind} on {in_distribution.name}, {len(known)} ID inputs"
        console.print(evaluation_table(evaluation, title))
        if bootstrap:
            console.print(_interval_table(evaluation))
        console.print(footnote(next(iter(evaluation.ood.values()))), style="dim")
    if json_file is not None:
        write_json(evaluation.to_dict(), json_file)


@app.command(
    epilog="Example: typica compare train.npy --labels y.npy --head head.safetensors --id test.npy --ood svhn=svhn.npy"
)
def compare(
    features: Annotated[Path, typer.Argument(help="Training features.")],
    in_distribution: Annotated[Path, typer.Option("--id", help="In-distribution test features.")],
    ood: Annotated[list[str], typer.Option(help="An OOD set, NAME=FILE; may be repeated.")],
    labels: Annotated[
        Path | None, typer.Option(help="Labels, if the feature file holds none.")
    ] = None,
    head: Annotated[
        Path | None, typer.Option(help="The last layer: weight, bias, classes.")
    ] = None,
    detectors: Annotated[
        str, typer.Option(help="all, paper, or names with commas between.")
    ] = "all",
    tpr: Tpr = 0.95,
    json_file: Json = None,
) -> None:
    """Fit every detector on the same features and show which tells ID from OOD best."""
    names = {"all": list_detectors(), "paper": PAPER}.get(detectors, detectors.split(","))
    found = find_head(head, features)
    made = make_detectors(names, found)
    headless = [name for name, detector in made.items() if found is None and wants_head(detector)]
    if headless:
        error_console.print(f"left out, for they need --head: {', '.join(headless)}")
        made = {name: detector for name, detector in made.items() if name not in headless}
    train = read_features(features)
    targets = read_labels(labels) if labels is not None else train.labels
    source = source_of(features)
    width = train.features.shape[1]
    known = _rows(in_distribution, source, width)
    sets = {name: _rows(path, source, width) for name, path in _named_files(ood).items()}
    with counting("comparing", len(made)) as done:
        rows = run_comparison(made, train.features, targets, known, sets, tpr=tpr, on_done=done)
    if json_file != "-":
        console.print(comparison_table(rows, f"AUROC ↑ on {in_distribution.name}, best in bold"))
        footnotes = [row.evaluation for row in rows.values() if row.evaluation is not None]
        if footnotes:
            console.print(footnote(next(iter(footnotes[0].ood.values()))), style="dim")
        for name, row in rows.items():
            if row.error:
                console.print(f"{name}: {row.error}", style="red", markup=False)
    if json_file is not None:
        write_json({name: row.to_dict() for name, row in rows.items()}, json_file)
    if not any(row.evaluation for row in rows.values()):
        raise InputError("compare: every detector failed; see the messages above.")


def _rows(
    path: Path, source: dict[str, Any] | None, width: int | None = None, *, logits: bool = False
) -> NDArray[Any]:
    """Read features, and refuse by the file's name what a detector would only call its input."""
    rows = read_features(path, source, logits=logits).features
    count, found = rows.shape
    if width not in (None, found):
        raise InputError(
            f"{path}: {found} features a row instead of {width}; take them from the same layer."
        )
    for block in row_blocks(count, found):
        with about(str(path)):
            check_finite(as_floating(rows[block]), block.start)
    return rows


def _interval_table(evaluation: Any) -> RenderableType:
    metrics = ("fpr", "auroc", "aupr_in", "aupr_out")
    rows = [
        [name, *("{}-{}".format(*map(percent, result.intervals[metric])) for metric in metrics)]
        for name, result in evaluation.ood.items()
    ]
    return table("95 % confidence intervals", ["OOD set", *metrics], rows)


def _named_files(pairs: list[str]) -> dict[str, Path]:
    files = {}
    for pair in pairs:
        name, equals, path = pair.partition("=")
        if not equals:
            name, path = Path(pair).stem, pair
        if not name or not path:
            raise InputError(f"--ood {pair}: expected NAME=FILE, e.g. --ood svhn=svhn.npy.")
        if name in files:
            raise InputError(f"--ood {pair}: the name {name!r} is given twice; choose another.")
        files[name] = Path(path)
    return files
