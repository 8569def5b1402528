"""`typica evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType

from typica.bench import evaluate_files
from typica.cli._app import new_app
from typica.cli._option_checks import one_of
from typica.cli._option_values import named_files
from typica.cli._options import (
    Alpha,
    Backend,
    Json,
    MovedModel,
    MovedWeights,
    OnError,
    Ood,
    TestFeatures,
    Tpr,
    Transform,
    Trust,
    network,
)
from typica.cli._show import footnote, present, table
from typica.decide import load_detector
from typica.metrics import CONVENTIONS, METRICS, Evaluation
from typica.written_numbers import percent

WITH_INTERVAL = ("fpr", "auroc", "aupr_in", "aupr_out")

app = new_app()


@app.command(
    epilog="Example: typica evaluate ctm.safetensors test.npy --ood svhn=svhn.npy "
    "--ood textures=dtd.npy"
)
def evaluate(
    detector: Annotated[Path, typer.Argument(help="A file that `typica fit` wrote.")],
    test: TestFeatures,
    ood: Ood,
    alpha: Alpha = None,
    tpr: Tpr = None,
    convention: Annotated[
        str,
        typer.Option(
            callback=one_of(CONVENTIONS), help=f"How FPR is defined: {', '.join(CONVENTIONS)}."
        ),
    ] = "first",
    bootstrap: Annotated[
        int, typer.Option(help="Resamples for 95 % confidence intervals.", min=0)
    ] = 0,
    model: MovedModel = None,
    weights: MovedWeights = None,
    transform: Transform = None,
    trust: Trust = False,
    backend: Backend = "auto",
    on_error: OnError = "stop",
    json_file: Json = None,
) -> None:
    """Measure how well a detector tells in-distribution from OOD features."""
    evaluation = evaluate_files(
        load_detector(detector),
        test,
        named_files(ood),
        alpha=alpha,
        tpr=tpr,
        convention=convention,
        bootstrap=bootstrap,
        **network(model, weights, transform, trust, backend, on_error),
    )
    title = f"{evaluation.detector} on {test.name}, {evaluation.n_id} ID inputs"
    parts = [_table(evaluation, title), footnote(next(iter(evaluation.ood.values())))]
    if bootstrap:
        parts.insert(1, _intervals(evaluation))
    present(evaluation.to_dict(), json_file, *parts)


def _table(evaluation: Evaluation, title: str) -> RenderableType:
    """Return one row per OOD set, and their average."""
    rows = []
    for name, result in evaluation.ood.items():
        shares = [percent(getattr(result, metric)) for metric in METRICS]
        rows.append([name, str(result.n_ood), *shares])
    averages = [percent(evaluation.average[metric]) for metric in METRICS]
    rows.append(["average", "", *averages])
    headings = [metric.label() for metric in METRICS.values()]
    return table(title, ["OOD set", "n", *headings], rows)


def _intervals(evaluation: Evaluation) -> RenderableType:
    rows = []
    for name, result in evaluation.ood.items():
        intervals = result.intervals or {}
        bounds = [map(percent, intervals[metric]) for metric in WITH_INTERVAL]
        rows.append([name, *map("-".join, bounds)])
    headings = [METRICS[metric].heading for metric in WITH_INTERVAL]
    return table("95 % confidence intervals", ["OOD set", *headings], rows)
