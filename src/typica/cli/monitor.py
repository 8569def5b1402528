"""`typica monitor`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

import typica
from typica.cli.app import new_app
from typica.cli.checks import out_file, out_text, prints
from typica.cli.options import Json
from typica.cli.show import console, percent, write_json, write_text
from typica.decide import Monitor, read_scores
from typica.detectors import final_detector
from typica.errors import InputError

ALARM = 3  # the exit code

app = new_app()


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
    """Watch scores on standard input and raise an alarm (exit code 3) when they have drifted.

    A line is a number, or a JSON object with "score" and maybe "class" (or "nearest"), as `typica
    score` writes them.
    """
    printed = prints(json=json_file, prometheus=prometheus)
    watch = _opened(detector, state, alpha)
    try:
        for scores, predicted in read_scores(sys.stdin):
            watch.update(scores, predicted)
    finally:  # interrupted or not, what was seen is kept
        if state is not None:
            watch.save(state)
    report = watch.report()
    if prometheus is not None:
        write_text(watch.prometheus(), prometheus)
    if not printed:
        _print(watch)
    if json_file is not None:
        write_json(report, json_file)
    if watch.alarm:
        raise typer.Exit(ALARM)


def _opened(detector: Path, state: Path | None, alpha: str) -> Monitor:
    """Return the monitor that the state file holds, or a new one where there is no such file."""
    if state is not None and state.exists():
        kept = typica.load(state)
        if isinstance(kept, Monitor):
            return kept
        raise InputError(f"{state}: holds no monitor; name a file that --state wrote.")
    source = typica.load(detector)
    if not hasattr(final_detector(source), "calibration_"):
        raise InputError(
            f"{detector}: has no calibration scores; run `typica calibrate` with held-out inputs "
            "first."
        )
    return Monitor(source, alpha=alpha)


def _print(watch: Monitor) -> None:
    rate = watch.rate
    alarm_at = f"alarm at {1 / watch.alpha:g}"
    console.print(f"{watch.inputs} inputs, wealth {watch.wealth:.4g} ({alarm_at})")
    interval = f"95 % interval {percent(rate.low)} to {percent(rate.high)}"
    console.print(f"rejected in the last {rate.n}: {percent(rate.rate)} % ({interval})")
    if watch.alarm:
        where = f"the change seems to lie at {watch.changed_at}"
        console.print(f"ALARM at input {watch.alarm_at}; {where}", style="red")
