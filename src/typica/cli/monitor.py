"""`typica monitor`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

import typica
from typica.cli._app import new_app
from typica.cli._exits import ALARM
from typica.cli._option_checks import out_file, out_text, prints
from typica.cli._options import Json
from typica.cli._show import complain, console, error_console, write_json, write_text
from typica.decide import Monitor, load_detector, read_scores
from typica.detectors import final_detector
from typica.errors import InputError
from typica.kinds import Kind, kind_of, wrong_kind
from typica.written_numbers import percent

app = new_app()


@app.command(
    epilog="Example: typica score ctm.safetensors new.npy -o - | typica monitor ctm.safetensors"
)
def monitor(
    detector: Annotated[
        Path | None,
        typer.Argument(
            help="A file that `typica calibrate` or `typica monitor --state` wrote; not needed "
            "beside a --state file that is there."
        ),
    ] = None,
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
    stop: Annotated[bool, typer.Option("--stop", help="End at the alarm.")] = False,
    prometheus: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", callback=out_text, help="Write gauges for Prometheus; - prints them."
        ),
    ] = None,
    json_file: Json = None,
) -> None:
    """Watch scores on standard input and raise an alarm (exit code 3) when they have drifted.

    A line is a number, or a JSON object with "score" and maybe "class" (or "nearest"); or the lines
    are CSV with such a header: what `typica score` writes. The alarm is printed when it comes.
    """
    printed = prints(json=json_file, prometheus=prometheus)
    watch = _opened(detector, state, alpha)
    try:
        _watch(watch, stop=stop, printed=printed)
    finally:  # interrupted or not, what was seen is kept
        if state is not None:
            watch.save(state)
    if prometheus is not None:
        write_text(watch.prometheus(), prometheus)
    if not printed:
        _summarize(watch)
    if json_file is not None:
        write_json(watch.report(), json_file)
    if watch.alarm:
        raise typer.Exit(ALARM)


def _opened(detector: Path | None, state: Path | None, alpha: str) -> Monitor:
    """Return the monitor that a file holds, or a new one of a calibrated detector."""
    if state is not None and state.exists():
        return _kept(state)
    if detector is None:
        absent = "" if state is None else f"{state}: there is no such file yet; "
        raise InputError(f"{absent}name a detector that `typica calibrate` wrote.")
    if kind_of(detector) == Kind.MONITOR:
        return _kept(detector)
    source = load_detector(detector)
    if final_detector(source).current_calibration() is None:
        raise InputError(
            f"{detector}: has no calibration scores; run `typica calibrate` with held-out inputs "
            "first."
        )
    return Monitor(source, alpha=alpha)


def _kept(path: Path) -> Monitor:
    kept = typica.load(path)
    if not isinstance(kept, Monitor):
        raise wrong_kind(path, "a monitor's state", "name a file that --state wrote")
    return kept


def _watch(watch: Monitor, *, stop: bool, printed: bool) -> None:
    """Take in what comes, and say at once that there is an alarm."""
    before = watch.inputs
    said = watch.alarm
    if said:
        _say_alarm(watch, printed=printed)
    if said and stop:
        return
    if sys.stdin.isatty():
        complain("reading scores from the terminal; end with Ctrl-D")
    for scores, predicted in read_scores(sys.stdin):
        watch.update(scores, predicted)
        if watch.alarm and not said:
            said = True
            _say_alarm(watch, printed=printed)
        if said and stop:
            return
    if watch.inputs == before:
        _say_that_none_came(watch)


def _say_alarm(watch: Monitor, *, printed: bool) -> None:
    """Print the alarm: on standard error where standard output is taken by a document."""
    target = error_console if printed else console
    where = f"the change seems to lie at {watch.changed_at}"
    target.print(f"ALARM at input {watch.alarm_at}; {where}", style="red")


def _say_that_none_came(watch: Monitor) -> None:
    """Say that the input is empty; refuse it where there are no scores from before either."""
    if watch.inputs:
        complain("no scores came on standard input")
        return
    raise InputError(
        "no scores came on standard input; write one per line, or pipe those of "
        "`typica score DETECTOR FILE -o -`."
    )


def _summarize(watch: Monitor) -> None:
    rate = watch.rate
    alarm_at = f"alarm at {watch.limit:g}"
    if not watch.alarm:
        console.print(f"no drift seen in {watch.inputs} inputs")
    console.print(f"{watch.inputs} inputs, wealth {watch.wealth:.4g} ({alarm_at})")
    interval = f"95 % interval {percent(rate.low)} to {percent(rate.high)}"
    console.print(f"rejected in the last {rate.n}: {percent(rate.rate)} % ({interval})")
