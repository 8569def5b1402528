"""`typica monitor`."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, TextIO

import numpy as np
import typer

import typica
from typica.checks import check_share
from typica.cli._app import new_app
from typica.cli._exits import ALARM
from typica.cli._option_checks import check_calibrated, out_detector, out_text, prints
from typica.cli._options import Json
from typica.cli._show import complain, console, error_console, write_json, write_text
from typica.decide import Monitor, load_detector, read_scores
from typica.errors import InputError, counted
from typica.kinds import Kind, kind_of, wrong_kind
from typica.machine import exit_on_signals
from typica.written_numbers import percent

ALPHA = "0.01"

app = new_app()


@app.command(
    epilog="Example: typica score ctm.safetensors new.npy -o - | typica monitor ctm.safetensors"
)
def monitor(
    detector: Annotated[
        Path | None,
        typer.Argument(
            help="A file that `typica calibrate` or `typica monitor --state` wrote; not needed "
            "if the --state file exists."
        ),
    ] = None,
    alpha: Annotated[
        str | None,
        typer.Option(
            help=f"Probability of a false alarm over all time; if not given, {ALPHA} or what the "
            "state was begun with."
        ),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            callback=out_detector,
            help="Keep the state in this file: read if it exists, written at the end. Verdicts of "
            "a `typica score -o -` that failed half way are refused, and the file stays as it is.",
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What these scores are called, such as a date: with --state, a name that was "
            "taken in before is not counted again.",
        ),
    ] = None,
    reset: Annotated[
        bool,
        typer.Option(
            "--reset",
            help="First end the alarm of the --state file, and start again from the calibration.",
        ),
    ] = False,
    stop: Annotated[
        bool,
        typer.Option("--stop", help="End at the alarm, after the scores that have come by then."),
    ] = False,
    prometheus: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", callback=out_text, help="Write gauges for Prometheus; - prints them."
        ),
    ] = None,
    json_file: Json = None,
) -> None:
    """Watch scores on standard input and raise an alarm (exit code 3) when they have drifted.

    Each line is a number, or a JSON object with "score" and maybe "class" (or "nearest"); or the
    lines are CSV with such a header, as `typica score` writes them. The alarm is printed at once.
    """
    printed = prints(json=json_file, prometheus=prometheus)
    if state is None and (reset or source is not None):
        option = "--reset" if reset else f"--source {source}"
        raise InputError(f"{option}: is about a state that is kept; pass --state FILE.")
    watch = _opened(detector, state, alpha)
    if reset:
        watch.reset()
    if state is None:
        _watch(watch, stop=stop, printed=printed)
    else:
        with exit_on_signals(), _saved_to(state, watch, source):
            if source in watch.sources:
                _pass_over(source)
            elif not (reset and sys.stdin.isatty()):
                _watch(watch, stop=stop, printed=printed, whole=not _is_file(sys.stdin))
    if prometheus is not None:
        write_text(watch.prometheus(), prometheus)
    if not printed:
        _summarize(watch)
    if json_file is not None:
        write_json(watch.to_dict(), json_file)
    if watch.alarm:
        raise typer.Exit(ALARM)


@contextlib.contextmanager
def _saved_to(state: Path, watch: Monitor, source: str | None) -> Iterator[None]:
    """Keep what was seen in the block, unless it was bad; interrupted, if it has no name.

    A name of which no score came can still come: the program before may have failed at once.
    """
    before = watch.inputs
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        if source is None:
            watch.save(state)
        raise
    if source is not None and watch.inputs > before:
        watch.sources.append(source)
    watch.save(state)


def _pass_over(source: str) -> None:
    """Read standard input to its end, so that whoever writes it can end, and count nothing."""
    complain(f"--source {source}: was taken in before; nothing is counted")
    while sys.stdin.buffer.read(2**16):
        pass


def _is_file(stream: TextIO) -> bool:
    """Tell whether a stream is a file, which `typica score` writes whole or not at all."""
    with contextlib.suppress(OSError, ValueError):
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    return False


def _opened(detector: Path | None, state: Path | None, alpha: str | None) -> Monitor:
    """Return the monitor that a file holds, or a new one of a calibrated detector."""
    if state is not None and state.exists():
        kept = _kept(state, alpha)
        if detector is not None:
            _check_same(kept, state, detector)
        return kept
    if detector is None:
        absent = "" if state is None else f"{state}: there is no such file yet; "
        raise InputError(f"{absent}name a detector that `typica calibrate` wrote.")
    if kind_of(detector) == Kind.MONITOR:
        return _kept(detector, alpha)
    source = load_detector(detector)
    check_calibrated(source, detector)
    return Monitor(source, alpha=ALPHA if alpha is None else alpha)


def _kept(path: Path, alpha: str | None) -> Monitor:
    """Return the monitor of a state, which has an alpha of its own."""
    kept = typica.load(path)
    if not isinstance(kept, Monitor):
        raise wrong_kind(path, "a monitor's state", "name a file that --state wrote")
    if alpha is not None and float(check_share(alpha, "alpha")) != kept.alpha:
        raise InputError(
            f"--alpha {alpha}: {path} was begun with {kept.alpha:g}; leave out --alpha, or begin "
            "another state."
        )
    return kept


def _check_same(kept: Monitor, state: Path, detector: Path) -> None:
    """Refuse a detector whose calibration is not the one that a state was begun with."""
    ours, other = kept.calibration, _opened(detector, None, None).calibration
    same_scores = np.array_equal(np.sort(ours.scores), np.sort(other.scores))
    if ours.by_class != other.by_class or not same_scores:
        raise InputError(
            f"{detector}: {state} was begun with another calibration; leave out the detector, or "
            "begin another state."
        )


def _watch(watch: Monitor, *, stop: bool, printed: bool, whole: bool = False) -> None:
    """Read scores as they come, and print an alarm at once.

    whole: as `read_scores` takes it.
    """
    before = watch.inputs
    said = watch.alarm
    if said:
        _say_alarm(watch, printed=printed)
    if said and stop:
        return
    if sys.stdin.isatty():
        complain("reading scores from the terminal; end with Ctrl-D")
    for scores, predicted in read_scores(sys.stdin, name="stdin", whole=whole):
        watch.update(scores, predicted)
        if watch.alarm and not said:
            said = True
            _say_alarm(watch, printed=printed)
        if said and stop:
            return
    if watch.inputs == before:
        complain("no scores came on standard input")


def _say_alarm(watch: Monitor, *, printed: bool) -> None:
    """Print the alarm: on standard error where standard output is taken by a document."""
    target = error_console if printed else console
    where = f"the change seems to be at {watch.changed_at}"
    target.print(f"ALARM at input {watch.alarm_at}; {where}", style="red")


def _summarize(watch: Monitor) -> None:
    rate = watch.rate
    seen = counted(watch.inputs, "input")
    alarm_at = f"alarm at {watch.limit:g}"
    if not watch.alarm:
        console.print(f"no drift seen in {seen}")
    console.print(f"{seen}, wealth {watch.wealth:.4g} ({alarm_at})")
    interval = f"95 % interval {percent(rate.low)} to {percent(rate.high)}"
    console.print(f"rejected in the last {rate.n}: {percent(rate.rate)} % ({interval})")
