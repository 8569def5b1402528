"""`typica calibrate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import RenderableType

import typica
from typica.cli.app import new_app
from typica.cli.checks import check_file, out_file
from typica.cli.options import Alpha, Confidence, Json, Tpr
from typica.cli.show import present, table
from typica.data import read_features
from typica.decide import origin_of
from typica.detectors import final_detector, reads_logits
from typica.progress import work

app = new_app()


@app.command(
    epilog="Example: typica calibrate ctm.safetensors held_out.npy --alpha 0.05 --confidence 0.99"
)
def calibrate(
    detector: Annotated[Path, typer.Argument(help="A file that `typica fit` wrote.")],
    held_out: Annotated[
        Path, typer.Argument(help="In-distribution features that the fit has not seen.")
    ],
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
            callback=out_file,
            help="Where to write it; the detector's own file if not given.",
        ),
    ] = None,
    json_file: Json = None,
) -> None:
    """Give a detector p-values from held-out inputs, and reject at a level that holds."""
    target = output or detector
    check_file(target)
    estimator = typica.load(detector)
    logits = reads_logits(estimator)
    rows = read_features(held_out, origin_of(estimator), logits=logits).features
    with work("calibrating", len(rows)):
        typica.calibrate(
            estimator, rows, by_class=by_class, alpha=alpha, tpr=tpr, confidence=confidence
        )
    final = final_detector(estimator)
    summary = {"detector": final.kind, **final.calibration_.to_dict()}
    typica.save(estimator, target)
    promise = f"wrote {target}: rejects at most {summary['alpha']:g} of ID"
    if confidence is not None:
        promise += f", with probability {confidence} over the calibration draw"
    present(summary, json_file, _groups(promise, summary))


def _groups(title: str, summary: dict[str, Any]) -> RenderableType:
    lines = []
    for group, entry in summary["groups"].items():
        threshold = f"{float(entry['threshold']):.4f}"
        lines.append([group, str(entry["n"]), str(entry["k"]), threshold])
    return table(title, ["group", "n", "k", "threshold"], lines)
