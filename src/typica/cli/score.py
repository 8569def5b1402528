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
from typica.conformal import ConformalDetector
from typica.data.tables import RowWriter, read_features
from typica.errors import InputError
from typica.exact import json_number
from typica.pipelines import detector_input, final_detector

SHOWN = 20  # rows of a long table that are printed
Columns = dict[str, NDArray[Any]]


@app.command(epilog="Example: typica score ctm.safetensors new.npy -o scores.csv")
def score(
    detector: Annotated[Path, typer.Argument(help="A file that `typica fit` or `typica calibrate` wrote.")],
    features: Annotated[Path, typer.Argument(help="Features to judge.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write every row: .csv, .jsonl or .parquet.")
    ] = None,
    alpha: Annotated[
        str | None, typer.Option(help="Reject where p <= alpha; needs `typica calibrate`, whose alpha is the default.")
    ] = None,
    confidence: Annotated[
        str | None, typer.Option(help="Keep to alpha with this probability over the calibration draw.")
    ] = None,
    fdr: Annotated[
        str | None, typer.Option(help="Reject so that at most this share of the rejected is ID, on average.")
    ] = None,
    limit: Annotated[int, typer.Option(help="How many rows to print.", min=0)] = SHOWN,
    json_file: Json = None,
) -> None:
    """Score features: typical or not, the nearest class and its margin over the next."""
    estimator = typica.load(detector)
    conformal = estimator if isinstance(estimator, ConformalDetector) else None
    if conformal is None and (alpha or confidence or fdr):
        raise InputError(f"{detector}: has no calibration scores; run `typica calibrate` with held-out inputs first.")
    if fdr is not None and (alpha or confidence):
        raise InputError("--fdr goes by itself; leave out --alpha and --confidence.")
    rows = read_features(features).features
    writer = RowWriter(output) if output is not None else None
    with progress("scoring", 2 * len(rows)):
        columns = _judge(estimator, rows, alpha, confidence, fdr)
    if writer is not None:
        with writer:
            for block in row_blocks(len(rows), len(columns) * 8):
                writer.write({name: column[block] for name, column in columns.items()})
        error_console.print(f"wrote {output}")
    rejected = int(np.count_nonzero(columns["verdict"] == "OOD"))
    if json_file != "-":
        console.print(_table({name: column[:limit].tolist() for name, column in columns.items()}))
        more = f" (first {limit} shown)" if limit < len(rows) else ""
        console.print(f"{rejected} of {len(rows)} rows are OOD, {percent(rejected / len(rows))} %{more}")
    if json_file is not None:
        lists = [column.tolist() for column in columns.values()]
        records = [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]
        counts = {"n": len(rows), "rejected": rejected, "rows": records}
        write_json({**_rule(estimator, alpha, confidence, fdr), **counts}, json_file)


def _rule(estimator: Any, alpha: str | None, confidence: str | None, fdr: str | None) -> dict[str, Any]:
    """Return the detector's name and what decides, as JSON values."""
    if isinstance(estimator, ConformalDetector):
        named = {"detector": final_detector(estimator.detector, "score").kind}
        return named | ({"fdr": fdr} if fdr else {"alpha": alpha or estimator.alpha, "confidence": confidence})
    final = final_detector(estimator, "score")
    calibration = final.calibration_
    return {"detector": final.kind, "threshold": json_number(calibration.threshold), "tpr": calibration.tpr}


def _judge(estimator: Any, rows: NDArray[Any], alpha: str | None, confidence: str | None, fdr: str | None) -> Columns:
    """Return the columns of the result."""
    columns: Columns = {"row": np.arange(len(rows), dtype=np.int64)}
    if isinstance(estimator, ConformalDetector):
        judged = estimator.judge(rows, alpha, confidence)
        typical = judged.typical if fdr is None else ~estimator.discoveries(rows, fdr)
        columns |= {"score": judged.scores, "p_value": judged.p_values}
        estimator = estimator.detector
    else:
        columns["score"] = np.asarray(estimator.score_samples(rows))
        typical = columns["score"] >= final_detector(estimator, "score").calibration_.threshold
    columns["verdict"] = np.where(typical, "ID", "OOD")
    final = final_detector(estimator, "score")
    matches = final.match(detector_input(estimator, rows))
    if matches is not None:
        margins = matches.similarity - matches.runner_up_similarity
        columns["nearest"] = np.asarray(final.classes_[matches.nearest])
        # None: there is no other class.
        columns["margin"] = np.array(
            [None if np.isnan(margin) else margin for margin in margins.tolist()], dtype=object
        )
    return columns


def _table(columns: dict[str, list[Any]]) -> Table:
    made = Table(box=None, pad_edge=False)
    for column in columns:
        made.add_column(column, justify="left" if column in ("verdict", "nearest") else "right")
    for record in zip(*columns.values(), strict=True):
        cells = ["-" if x is None else f"{x:.4f}" if isinstance(x, float) else str(x) for x in record]
        made.add_row(*cells, style="red" if "OOD" in record else "")
    return made
