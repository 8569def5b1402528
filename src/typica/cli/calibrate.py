"""`typica calibrate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import RenderableType

import typica
from typica.cli._app import new_app
from typica.cli._option_checks import check_ending, check_out_file, out_detector
from typica.cli._options import (
    Address,
    Alpha,
    Backend,
    Confidence,
    Engine,
    FeatureColumn,
    FeatureColumns,
    Json,
    MovedModel,
    MovedWeights,
    OnError,
    Tpr,
    Transform,
    Trust,
    network,
)
from typica.cli._show import present, table
from typica.data import are_images
from typica.decide import load_detector
from typica.detectors import Estimator, final_detector
from typica.nets import InputReader, check_no_network
from typica.progress import work
from typica.scale import are_tables

app = new_app()


@app.command(
    epilog="Example: typica calibrate ctm.safetensors held_out.npy --alpha 0.05 --confidence 0.99"
)
def calibrate(
    detector: Annotated[Path, typer.Argument(help="A file that `typica fit` wrote.")],
    held_out: Annotated[
        list[str],
        typer.Argument(
            help="In-distribution inputs that the fit has not seen: features, a bank, tables of "
            "any size, or images and folders, any number."
        ),
    ],
    feature_column: FeatureColumn = None,
    columns: FeatureColumns = None,
    engine: Engine = None,
    address: Address = None,
    alpha: Alpha = None,
    tpr: Tpr = None,
    confidence: Confidence = None,
    by_class: Annotated[
        bool, typer.Option("--by-class", help="Keep to alpha within each predicted class.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            callback=out_detector,
            help="Where to write the detector; its own file if not given.",
        ),
    ] = None,
    model: MovedModel = None,
    weights: MovedWeights = None,
    transform: Transform = None,
    trust: Trust = False,
    backend: Backend = "auto",
    on_error: OnError = "stop",
    json_file: Json = None,
) -> None:
    """Give a detector p-values from held-out inputs, and reject at a level that holds."""
    target = output or detector
    check_out_file(target)
    if output is not None:
        check_ending(output, ".safetensors", "a detector")
    estimator = load_detector(detector)
    rule: dict[str, Any] = {
        "by_class": by_class,
        "alpha": alpha,
        "tpr": tpr,
        "confidence": confidence,
    }
    named: dict[str, Any] = {"features": feature_column, "columns": columns or None}
    where: dict[str, Any] = {"engine": engine, "address": address}
    seen_by = network(model, weights, transform, trust, backend, on_error)
    if are_tables(held_out, on_error, **named, **where):
        check_no_network(seen_by, "these are tables")
        named["on_error"] = on_error
        typica.scale.calibrate(estimator, held_out, **named, **rule, **where)
    else:
        if not are_images(held_out):
            check_no_network(seen_by, "these are features")
        reader = InputReader.of(estimator, **seen_by)
        _calibrate(estimator, reader, [Path(path) for path in held_out], rule)
    final = final_detector(estimator)
    summary = {"detector": final.kind, **final.calibration_.to_dict()}
    typica.save(estimator, target)
    promise = f"wrote {target}: rejects at most {summary['alpha']:g} of ID"
    if confidence is None:
        promise += ", on average over calibration draws"
    else:
        promise += f", with probability {confidence} over the calibration draw"
    present(summary, json_file, promise, _groups(summary))


def _calibrate(
    estimator: Estimator, reader: InputReader, held_out: list[Path], rule: dict[str, Any]
) -> None:
    rows = reader.rows(held_out)
    with work("calibrating", len(rows)):
        typica.calibrate(estimator, rows, **rule)
    reader.remember(estimator)


def _groups(summary: dict[str, Any]) -> RenderableType:
    lines = []
    for group, entry in summary["groups"].items():
        threshold = f"{float(entry['threshold']):.4f}"
        lines.append([group, str(entry["n"]), str(entry["k"]), threshold])
    return table("", ["group", "n", "k", "threshold"], lines)
