"""`typica score`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.table import Table

import typica
from typica.arrays import row_blocks
from typica.cli.app import Json, app
from typica.cli.show import console, error_console, percent, progress, write_json
from typica.data.tables import RowWriter, read_features
from typica.detectors import Detector
from typica.exact import json_number
from typica.pipelines import detector_input, final_detector

SHOWN = 20  # rows of a long table that are printed


@app.command(epilog="Example: typica score ctm.safetensors new.npy -o scores.csv")
def score(
    detector: Annotated[Path, typer.Argument(help="A file that `typica fit` wrote.")],
    features: Annotated[Path, typer.Argument(help="Features to judge.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write every row: .csv, .jsonl or .parquet.")
    ] = None,
    limit: Annotated[int, typer.Option(help="How many rows to print.", min=0)] = SHOWN,
    json_file: Json = None,
) -> None:
    """Score features: typical or not, the nearest class and its margin over the next."""
    estimator = typica.load(detector)
    final = final_detector(estimator, "score")
    rows = read_features(features).features
    writer = RowWriter(output) if output is not None else None
    shown: list[dict[str, Any]] = []
    keep = len(rows) if json_file is not None else limit
    rejected = 0

    def work() -> None:
        nonlocal rejected
        for block in row_blocks(len(rows), rows.shape[1]):
            columns = _judge(estimator, final, rows[block], block.start)
            rejected += columns["verdict"].count("OOD")
            if writer is not None:
                writer.write(columns)
            if len(shown) < keep:
                records = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
                shown.extend(records[: keep - len(shown)])

    with progress("scoring", 2 * len(rows)):
        if writer is None:
            work()
        else:
            with writer:
                work()
    if json_file != "-":
        console.print(_score_table(shown[:limit]))
        more = f" (first {limit} shown)" if limit < len(rows) else ""
        console.print(f"{rejected} of {len(rows)} rows are OOD, {percent(rejected / len(rows))} %{more}")
        if output is not None:
            error_console.print(f"wrote {output}")
    if json_file is not None:
        calibration = final.calibration_
        document = {
            "detector": final.kind, "threshold": json_number(calibration.threshold), "tpr": calibration.tpr,
            "n": len(rows), "rejected": rejected, "rows": shown,
        }  # fmt: skip
        write_json(document, json_file)


def _judge(estimator: Any, final: Detector, rows: NDArray[Any], start: int) -> dict[str, list[Any]]:
    """Return the columns of the result for a block of rows that begins at row `start`."""
    Z = detector_input(estimator, rows)
    scores = np.asarray(final.score_samples(Z))
    accepted = scores >= final.calibration_.threshold
    columns: dict[str, list[Any]] = {
        "row": list(range(start, start + len(rows))),
        "score": scores.tolist(),
        "verdict": ["ID" if verdict else "OOD" for verdict in accepted],
    }
    matches = final.match(Z)
    if matches is not None:
        margins = (matches.similarity - matches.runner_up_similarity).tolist()
        columns["nearest"] = final.classes_[matches.nearest].tolist()
        columns["margin"] = [None if np.isnan(margin) else margin for margin in margins]
    return columns


def _score_table(shown: list[dict[str, Any]]) -> Table:
    columns = list(shown[0]) if shown else ["row", "score", "verdict"]
    made = Table(box=None, pad_edge=False)
    for column in columns:
        made.add_column(column, justify="left" if column in ("verdict", "nearest") else "right")
    for record in shown:
        cells = [
            "-" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)
            for value in record.values()
        ]
        made.add_row(*cells, style="red" if record["verdict"] == "OOD" else "")
    return made
