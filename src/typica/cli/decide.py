"""`typica calibrate` and `typica monitor`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import typica
from typica.cli.app import Json, app
from typica.cli.checks import check_file, out_file, out_text, prints
from typica.cli.show import console, percent, progress, table, write_json, write_text
from typica.data import read_features
from typica.decide import ConformalDetector, Monitor, read_batches, remembered
from typica.errors import InputError
from typica.nets._input import reads_logits


@app.command(
    epilog="Example: typica calibrate ctm.safetensors held_out.npy --alpha 0.05 --confidence 0.99"
)
def calibrate(
    detector: Annotated[Path, typer.Argument(help="A file that `typica fit` wrote.")],
    held_out: Annotated[
        Path, typer.Argument(help="In-distribution features that the fit has not seen.")
    ],
    alpha: Annotated[
        str, typer.Option(help="Share of in-distribution inputs that may be rejected.")
    ] = "0.05",
    confidence: Annotated[
        str | None,
        typer.Option(help="Keep to alpha with this probability over the calibration draw."),
    ] = None,
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
    """Give a detector p-values: compare new inputs with held-out ones, and reject at a level that holds."""
    target = output or detector
    check_file(target)
    made = ConformalDetector(
        unwrapped(typica.load(detector)), by_class=by_class, alpha=alpha, confidence=confidence
    )
    logits = reads_logits(made.detector, "calibrate")
    rows = read_features(held_out, remembered(made.detector), logits=logits).features
    with progress("calibrating", len(rows) * (2 if by_class else 1)):
        made.calibrate(rows)
    summary = made.summary()
    made.save(target)
    if json_file != "-":
        lines = [
            [group, str(entry["n"]), str(entry["k"]), f"{float(entry['threshold']):.4f}"]
            for group, entry in summary["groups"].items()
        ]
        sure = (
            ""
            if confidence is None
            else f", with probability {confidence} over the calibration draw"
        )
        console.print(
            table(
                f"wrote {target}: rejects at most {alpha} of ID{sure}",
                ["group", "n", "k", "threshold"],
                lines,
            )
        )
    if json_file is not None:
        write_json(summary, json_file)


@app.command(epilog="Example: typica monitor ctm.safetensors < scores.jsonl")
def monitor(
    detector: Annotated[
        Path,
        typer.Argument(help="A file that `typica calibrate` or `typica monitor --state` wrote."),
    ],
    alpha: Annotated[
        str, typer.Option(help="Probability of a false alarm over all time.")
    ] = "0.01",
    state: Annotated[
        Path | None,
        typer.Option(
            callback=out_file,
            help="Keep the state in this file: read if it is there, written at the end.",
        ),
    ] = None,
    prometheus: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", callback=out_text, help="Write gauges for Prometheus; - prints them."
        ),
    ] = None,
    json_file: Json = None,
) -> None:
    """Watch a stream of scores on standard input and raise an alarm (exit code 3) when it has drifted.

    A line is a number, or a JSON object with "score" and maybe "class" (or "nearest"), as `typica
    score` writes them.
    """
    printed = prints(json=json_file, prometheus=prometheus)
    if state is not None and state.exists():
        watch: Any = typica.load(state)
    else:
        source = typica.load(detector)
        if not isinstance(source, ConformalDetector):
            raise InputError(
                f"{detector}: has no calibration scores; run `typica calibrate` with held-out inputs first."
            )
        watch = Monitor(source, alpha=alpha)
    if not isinstance(watch, Monitor):
        raise InputError(f"{state}: holds no monitor; name a file that --state wrote.")
    try:
        for scores, predicted in read_batches(sys.stdin):
            watch.update(scores, predicted)
    finally:  # interrupted or not, what was seen is kept
        if state is not None:
            watch.save(state)
    report = watch.report()
    if prometheus is not None:
        write_text(watch.prometheus(), prometheus)
    if not printed:
        rate = watch.rate
        console.print(
            f"{watch.inputs} inputs, wealth {watch.wealth:.4g} (alarm at {1 / watch.alpha:g})"
        )
        interval = f"95 % interval {percent(rate.low)} to {percent(rate.high)}"
        console.print(f"rejected in the last {rate.n}: {percent(rate.rate)} % ({interval})")
        if watch.alarm:
            console.print(
                f"ALARM at input {watch.alarm_at}; the change seems to lie at {watch.changed_at}",
                style="red",
            )
    if json_file is not None:
        write_json(report, json_file)
    if watch.alarm:
        raise typer.Exit(3)


def unwrapped(estimator: Any) -> Any:
    """Return the detector or Pipeline itself, without the calibration scores around it."""
    return estimator.detector if isinstance(estimator, ConformalDetector) else estimator
