"""`typica score`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.markup import escape
from rich.table import Table

import typica
from typica.arrays import row_blocks
from typica.cli.app import Json, app
from typica.cli.checks import out_file
from typica.cli.extract import Backend, OnError
from typica.cli.show import (
    console,
    error_console,
    percent,
    progress,
    show_left_out,
    show_skipped,
    write_json,
)
from typica.data import RowWriter, holds_images, read_features
from typica.decide import ConformalDetector, remembered
from typica.detectors import detector_input, final_detector
from typica.errors import InputError
from typica.exact import json_number
from typica.nets._input import reads_logits

SHOWN = 20  # rows of a long table that are printed
Columns = dict[str, NDArray[Any]]


@app.command(epilog="Example: typica score ctm.safetensors photo.jpg folder/ -o scores.csv")
def score(
    detector: Annotated[
        Path, typer.Argument(help="A file that `typica fit` or `typica calibrate` wrote.")
    ],
    inputs: Annotated[
        list[Path],
        typer.Argument(help="Features or a bank; or images, folders and archives, any number."),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", callback=out_file, help="Write every row: .csv, .jsonl or .parquet."
        ),
    ] = None,
    alpha: Annotated[
        str | None,
        typer.Option(
            help="Reject where p <= alpha; needs `typica calibrate`, whose alpha is the default."
        ),
    ] = None,
    confidence: Annotated[
        str | None,
        typer.Option(help="Keep to alpha with this probability over the calibration draw."),
    ] = None,
    fdr: Annotated[
        str | None,
        typer.Option(help="Reject so that at most this share of the rejected is ID, on average."),
    ] = None,
    limit: Annotated[int, typer.Option(help="How many rows to print.", min=0)] = SHOWN,
    model: Annotated[
        str | None, typer.Option(help="For images: the model, if it has moved.")
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(help="For images: the checkpoint, if it has moved.")
    ] = None,
    backend: Backend = "auto",
    on_error: OnError = "stop",
    json_file: Json = None,
) -> None:
    """Score features or images: typical or not, the nearest class and the runner-up.

    Images go through the model that the detector remembers from the bank it was fitted on.
    """
    estimator = typica.load(detector)
    conformal = estimator if isinstance(estimator, ConformalDetector) else None
    if conformal is None and (alpha or confidence or fdr):
        raise InputError(
            f"{detector}: has no calibration scores; run `typica calibrate` with held-out inputs first."
        )
    if fdr is not None and (alpha or confidence):
        raise InputError("--fdr goes by itself; leave out --alpha and --confidence.")
    writer = RowWriter(output) if output is not None else None
    unwrapped = estimator if conformal is None else conformal.detector
    if _are_pictures(inputs):
        names, rows = _look(unwrapped, detector, inputs, model, weights, backend, on_error)
        first: Columns = {"file": names}
    elif len(inputs) > 1:
        raise InputError(
            f"score: {len(inputs)} files of features; pass one, or images and folders."
        )
    else:
        logits = reads_logits(unwrapped, "score")
        rows = read_features(inputs[0], remembered(unwrapped), logits=logits).features
        first = {"row": np.arange(len(rows), dtype=np.int64)}
    with progress("scoring", 2 * len(rows)):
        columns = first | _judge(estimator, rows, alpha, confidence, fdr)
    if writer is not None:
        with writer:
            for block in row_blocks(len(rows), len(columns) * 8):
                writer.write({name: column[block] for name, column in columns.items()})
        error_console.print(f"wrote {output}")
    rejected = int(np.count_nonzero(columns["verdict"] == "OOD"))
    if json_file != "-":
        console.print(_table({name: column[:limit].tolist() for name, column in columns.items()}))
        more = f" (first {limit} shown)" if limit < len(rows) else ""
        what = "pictures" if "file" in columns else "rows"
        console.print(
            f"{rejected} of {len(rows)} {what} are OOD, {percent(rejected / len(rows))} %{more}"
        )
    if json_file is not None:
        lists = [column.tolist() for column in columns.values()]
        records = [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]
        counts = {"n": len(rows), "rejected": rejected, "rows": records}
        write_json({**_rule(estimator, alpha, confidence, fdr), **counts}, json_file)


def _are_pictures(inputs: list[Path]) -> bool:
    """Tell whether the inputs are images; refuse some of each kind."""
    kinds: dict[bool, list[Path]] = {False: [], True: []}
    for path in inputs:
        kinds[holds_images(path)].append(path)
    if all(kinds.values()):
        raise InputError(
            f"score: features ({_some(kinds[False])}) and images ({_some(kinds[True])}) cannot be scored together; "
            "run the command once for each kind."
        )
    return bool(kinds[True])


def _some(paths: list[Path]) -> str:
    return ", ".join(map(str, paths[:3])) + (" ..." if len(paths) > 3 else "")


def _look(
    estimator: Any,
    path: Path,
    inputs: list[Path],
    model: str | None,
    weights: Path | None,
    backend: str,
    on_error: str,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the names of images and what the detector reads of them: features or logits."""
    from typica.data import open_images  # noqa: PLC0415 (only images need it)
    from typica.nets._extraction import Settings, features_of  # noqa: PLC0415 (needs torch, which is an extra)
    from typica.nets._source import reopen  # noqa: PLC0415

    images = open_images(inputs)
    show_left_out(images)
    opened, transform = reopen(remembered(estimator), str(path), model=model, weights=weights)
    settings = Settings(backend=backend, on_error=on_error)  # type: ignore[arg-type]
    with progress("looking", len(images), unit="images/s"):
        seen = features_of(opened, images, transform, estimator, settings)
    show_skipped(seen.skipped)
    return np.array([images.names[i] for i in seen.indices.tolist()]), seen.rows


def _rule(
    estimator: Any, alpha: str | None, confidence: str | None, fdr: str | None
) -> dict[str, Any]:
    """Return the detector's name and what decides, as JSON values."""
    if isinstance(estimator, ConformalDetector):
        named = {"detector": final_detector(estimator.detector).kind}
        return named | (
            {"fdr": fdr} if fdr else {"alpha": alpha or estimator.alpha, "confidence": confidence}
        )
    final = final_detector(estimator)
    calibration = final.calibration_
    return {
        "detector": final.kind,
        "threshold": json_number(calibration.threshold),
        "tpr": calibration.tpr,
    }


def _judge(
    estimator: Any, rows: NDArray[Any], alpha: str | None, confidence: str | None, fdr: str | None
) -> Columns:
    """Return the columns of the result."""
    if isinstance(estimator, ConformalDetector):
        judged = estimator.judge(rows, alpha, confidence)
        typical = judged.typical if fdr is None else ~estimator.discoveries(rows, fdr)
        numbers: Columns = {"score": judged.scores, "p_value": judged.p_values}
        estimator = estimator.detector
    else:
        numbers = {"score": np.asarray(estimator.score_samples(rows))}
        typical = numbers["score"] >= final_detector(estimator).calibration_.threshold
    columns = {"verdict": np.where(typical, "ID", "OOD"), **numbers}
    final = final_detector(estimator)
    matches = final.match(detector_input(estimator, rows))
    if matches is not None:
        alone = matches.runner_up < 0  # there is no other class
        columns["nearest"] = np.asarray(final.classes_[matches.nearest])
        columns["runner_up"] = _unless(alone, final.classes_[matches.runner_up])
        columns["margin"] = _unless(alone, matches.similarity - matches.runner_up_similarity)
    return columns


def _unless(absent: NDArray[np.bool_], column: NDArray[Any]) -> NDArray[Any]:
    """Return a column with None where a value is absent."""
    pairs = zip(absent.tolist(), column.tolist(), strict=True)
    return np.array([None if gone else value for gone, value in pairs], dtype=object)


def _table(columns: dict[str, list[Any]]) -> Table:
    made = Table(box=None, pad_edge=False)
    for column in columns:
        text = column in ("file", "verdict", "nearest", "runner_up")
        made.add_column(
            column.replace("_", "-"), justify="left" if text else "right", overflow="fold"
        )
    for record in zip(*columns.values(), strict=True):
        cells = [
            "-" if x is None else f"{x:.4f}" if isinstance(x, float) else escape(str(x))
            for x in record
        ]
        made.add_row(*cells, style="red" if "OOD" in record else "")
    return made
