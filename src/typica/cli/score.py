"""`typica score`."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table

import typica
from typica.arrays import AnyArray, row_blocks
from typica.bench import NarrowTable
from typica.calibration import Levels
from typica.checks import check_share
from typica.cli.app import new_app
from typica.cli.checks import out_rows, prints
from typica.cli.options import (
    Backend,
    Confidence,
    Json,
    MovedModel,
    MovedWeights,
    OnError,
    Trust,
)
from typica.cli.show import (
    complain,
    console,
    error_console,
    one_line,
    percent,
    write_json,
)
from typica.data import RowPrinter, RowWriter, holds_images, read_arriving, read_features
from typica.decide import describe, judge, origin_of
from typica.detectors import final_detector, reads_logits
from typica.errors import InputError
from typica.progress import work
from typica.verdicts import Verdicts

STANDARD = Path("-")  # standard input, or output
SHOWN = 20  # rows of a long table that are printed
COLUMNS = ("verdict", "score", "p_value", "nearest", "runner_up", "margin")
Inputs = dict[str, AnyArray]

app = new_app()


@app.command(epilog="Example: typica score ctm.safetensors photo.jpg folder/ -o scores.csv")
def score(
    detector: Annotated[
        Path, typer.Argument(help="A file that `typica fit` or `typica calibrate` wrote.")
    ],
    inputs: Annotated[
        list[Path],
        typer.Argument(
            help="Features or a bank; or images, folders and archives, any number; - reads "
            "features from standard input: .npy, JSON lines or CSV."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            callback=out_rows,
            help="Write every row: .csv, .jsonl or .parquet; - prints lines of JSON.",
        ),
    ] = None,
    alpha: Annotated[
        str | None,
        typer.Option(
            help="Reject where p <= alpha; needs `typica calibrate`, whose alpha is the default."
        ),
    ] = None,
    confidence: Confidence = None,
    fdr: Annotated[
        str | None,
        typer.Option(help="Reject so that at most this share of the rejected is ID, on average."),
    ] = None,
    limit: Annotated[int, typer.Option(help="How many rows to print.", min=0)] = SHOWN,
    model: MovedModel = None,
    weights: MovedWeights = None,
    trust: Trust = False,
    backend: Backend = "auto",
    on_error: OnError = "stop",
    json_file: Json = None,
) -> None:
    """Score features or images: typical or not, the nearest class and the runner-up.

    Images go through the model that the detector remembers from the bank it was fitted on.
    """
    estimator = typica.load(detector)
    _check_levels(estimator, detector, alpha, confidence, fdr)
    printed = prints(json=json_file, output=None if output is None else str(output))
    writer = _writer(output)
    streams = inputs == [STANDARD] and output == STANDARD
    if streams and fdr is None and json_file is None:  # which need all rows
        _pipe(lambda rows: judge(estimator, rows, alpha, confidence))
        return
    if _are_images(inputs):
        # Needs torch, which is an extra.
        from typica.nets import Settings, judge_images  # noqa: PLC0415

        verdicts = judge_images(
            estimator,
            inputs,
            alpha=alpha,
            confidence=confidence,
            fdr=fdr,
            model=model,
            weights=weights,
            trust=trust,
            settings=Settings(backend=backend, on_error=on_error),  # type: ignore[arg-type]
        )
        judged = Judged({"file": np.asarray(verdicts.file)}, verdicts)
    else:
        rows = _read(estimator, inputs)
        with work("scoring", len(rows)):
            verdicts = judge(estimator, rows, alpha, confidence, fdr)
        judged = Judged({"row": np.arange(len(rows))}, verdicts)
    if writer is not None:
        _write(judged, writer)
    if isinstance(writer, RowWriter):
        error_console.print(f"wrote {output}")
    if not printed:
        console.print(_table(judged.columns(slice(limit))))
        console.print(_count(judged, limit))
    if json_file is not None:
        rule = _rule(estimator, alpha, confidence, fdr)
        write_json(rule | _records(judged), json_file)


def _writer(output: Path | None) -> RowWriter | RowPrinter | None:
    if output is None:
        return None
    return RowPrinter() if output == STANDARD else RowWriter(output)


def _pipe(judged: Callable[[AnyArray], Verdicts]) -> None:
    """Judge the rows of standard input as they arrive, and print each verdict at once."""
    printer = RowPrinter()
    seen = rejected = 0
    for rows in read_arriving(cast(io.BufferedReader, sys.stdin.buffer)):
        verdicts = judged(rows)
        numbers = np.arange(seen, seen + len(rows))
        printer.write(Judged({"row": numbers}, verdicts).columns(slice(None)))
        seen += len(rows)
        rejected += verdicts.n_atypical
    complain(_share(rejected, seen, "rows"), style="")


class Judged(NamedTuple):
    """The verdicts, and what each is about: the number of a row, or the name of an image."""

    inputs: Inputs
    verdicts: Verdicts

    def columns(self, rows: slice) -> dict[str, list[Any]]:
        """Return some of the rows as lists by column, without the sentences."""
        first = {name: column[rows].tolist() for name, column in self.inputs.items()}
        return first | self.verdicts[rows].to_dict(COLUMNS)


def _check_levels(
    estimator: Any, path: Path, alpha: str | None, confidence: str | None, fdr: str | None
) -> None:
    """Raise for levels that the detector cannot keep to, or that do not go together."""
    calibrated = hasattr(final_detector(estimator), "calibration_")
    if not calibrated and (alpha or confidence or fdr):
        raise InputError(
            f"{path}: has no calibration scores; run `typica calibrate` with held-out inputs first."
        )
    if fdr is not None and (alpha or confidence):
        raise InputError("--fdr goes by itself; leave out --alpha and --confidence.")


def _read(estimator: Any, inputs: list[Path]) -> AnyArray:
    """Return the rows that the detector reads."""
    if len(inputs) > 1:
        raise InputError(
            f"score: {len(inputs)} files of features; pass one, or images and folders."
        )
    if inputs == [STANDARD]:
        return np.concatenate(list(read_arriving(cast(io.BufferedReader, sys.stdin.buffer))))
    logits = reads_logits(estimator)
    return read_features(inputs[0], origin_of(estimator), logits=logits).features


def _write(judged: Judged, writer: RowWriter | RowPrinter) -> None:
    with writer:
        for block in row_blocks(len(judged.verdicts), len(COLUMNS) * 8):
            writer.write(judged.columns(block))


def _records(judged: Judged) -> dict[str, Any]:
    columns = judged.columns(slice(None))
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return {"n": len(rows), "rejected": judged.verdicts.n_atypical, "rows": rows}


def _count(judged: Judged, limit: int) -> str:
    """Say how many were rejected, and how many of them are shown."""
    total, rejected = len(judged.verdicts), judged.verdicts.n_atypical
    what = "images" if "file" in judged.inputs else "rows"
    more = f" (first {limit} shown)" if limit < total else ""
    return _share(rejected, total, what) + more


def _share(rejected: int, total: int, what: str) -> str:
    return f"{rejected} of {total} {what} are atypical, {percent(rejected / total)} %"


def _are_images(inputs: list[Path]) -> bool:
    """Tell whether the inputs are images; refuse some of each kind."""
    if inputs == [STANDARD]:
        return False
    if STANDARD in inputs:
        raise InputError("score: - reads standard input and goes by itself; leave out the others.")
    kinds: dict[bool, list[Path]] = {False: [], True: []}
    for path in inputs:
        kinds[holds_images(path)].append(path)
    if all(kinds.values()):
        raise InputError(
            f"score: features ({_some(kinds[False])}) and images ({_some(kinds[True])}) cannot be "
            "scored together; run the command once for each kind."
        )
    return bool(kinds[True])


def _some(paths: list[Path]) -> str:
    return ", ".join(map(str, paths[:3])) + (" ..." if len(paths) > 3 else "")


def _rule(
    estimator: Any, alpha: str | None, confidence: str | None, fdr: str | None
) -> dict[str, Any]:
    """Return the detector's name and what decides, as JSON values."""
    described = describe(estimator)
    named = {"detector": described["detector"]}
    if fdr is not None:
        return named | {"fdr": float(check_share(fdr, "fdr"))}
    levels = described["calibration"]
    if alpha or confidence:
        return named | Levels.of(alpha or levels["alpha"], confidence=confidence).to_dict()
    keys = ("threshold", "thresholds", "tpr", "alpha", "confidence")
    known = described | levels
    return named | {key: known[key] for key in keys if key in known}


def _table(columns: dict[str, list[Any]]) -> NarrowTable:
    made = Table(box=None, pad_edge=False)
    for column in columns:
        text = column in ("file", "verdict", "nearest", "runner_up")
        heading = column.replace("_", "-")
        made.add_column(heading, justify="left" if text else "right", overflow="fold")
    for record in zip(*columns.values(), strict=True):
        made.add_row(*map(_cell, record), style="red" if "atypical" in record else "")
    return NarrowTable(made)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4f}"
    return escape(one_line(str(value)))
