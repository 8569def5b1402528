"""`typica calibrate`, `typica monitor` and `typica choose`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from sklearn.model_selection import train_test_split

import typica
from typica.bank import Bank
from typica.bench.choose import leave_classes_out
from typica.bench.run import PAPER, make_detectors, wants_head
from typica.cli.app import Json, app
from typica.cli.checks import check_file, out_file, out_text, prints
from typica.cli.choose import show_choice
from typica.cli.extract import Split
from typica.cli.show import console, counting, error_console, percent, progress, table, write_json, write_text
from typica.conformal import ConformalDetector
from typica.data.images import open_images
from typica.data.tables import find_head, read_features, read_labels, source_of
from typica.detectors import list_detectors
from typica.errors import InputError
from typica.monitor import Monitor
from typica.nets._input import reads_logits
from typica.pipelines import remembered
from typica.stream import read_batches


@app.command(epilog="Example: typica calibrate ctm.safetensors held_out.npy --alpha 0.05 --confidence 0.99")
def calibrate(
    detector: Annotated[Path, typer.Argument(help="A file that `typica fit` wrote.")],
    held_out: Annotated[Path, typer.Argument(help="In-distribution features that the fit has not seen.")],
    alpha: Annotated[str, typer.Option(help="Share of in-distribution inputs that may be rejected.")] = "0.05",
    confidence: Annotated[
        str | None, typer.Option(help="Keep to alpha with this probability over the calibration draw.")
    ] = None,
    by_class: Annotated[bool, typer.Option("--by-class", help="Keep to alpha within each predicted class.")] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", callback=out_file, help="Where to write it; the detector's own file if not given."
        ),
    ] = None,
    json_file: Json = None,
) -> None:
    """Give a detector p-values: compare new inputs with held-out ones, and reject at a level that holds."""
    target = output or detector
    check_file(target)
    made = ConformalDetector(unwrapped(typica.load(detector)), by_class=by_class, alpha=alpha, confidence=confidence)
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
        sure = "" if confidence is None else f", with probability {confidence} over the calibration draw"
        console.print(
            table(f"wrote {target}: rejects at most {alpha} of ID{sure}", ["group", "n", "k", "threshold"], lines)
        )
    if json_file is not None:
        write_json(summary, json_file)


@app.command(epilog="Example: typica monitor ctm.safetensors < scores.jsonl")
def monitor(
    detector: Annotated[Path, typer.Argument(help="A file that `typica calibrate` or `typica monitor --state` wrote.")],
    alpha: Annotated[str, typer.Option(help="Probability of a false alarm over all time.")] = "0.01",
    state: Annotated[
        Path | None,
        typer.Option(callback=out_file, help="Keep the state in this file: read if it is there, written at the end."),
    ] = None,
    prometheus: Annotated[
        str | None,
        typer.Option(metavar="FILE", callback=out_text, help="Write gauges for Prometheus; - prints them."),
    ] = None,
    json_file: Json = None,
) -> None:
    """Watch a stream of scores on standard input and raise an alarm (exit code 3) when it has drifted.

    A line is a number, or a JSON object with "score" and maybe "class" (or "nearest"), as `typica score` writes them.
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
        console.print(f"{watch.inputs} inputs, wealth {watch.wealth:.4g} (alarm at {1 / watch.alpha:g})")
        interval = f"95 % interval {percent(rate.low)} to {percent(rate.high)}"
        console.print(f"rejected in the last {rate.n}: {percent(rate.rate)} % ({interval})")
        if watch.alarm:
            console.print(
                f"ALARM at input {watch.alarm_at}; the change seems to lie at {watch.changed_at}", style="red"
            )
    if json_file is not None:
        write_json(report, json_file)
    if watch.alarm:
        raise typer.Exit(3)


@app.command(epilog="Example: typica choose --bank train.bank --images train/")
def choose(
    bank: Annotated[Path, typer.Option(help="A bank, or features with labels; --labels if the file holds none.")],
    labels: Annotated[Path | None, typer.Option(help="Labels, if the bank holds none.")] = None,
    held_out: Annotated[
        Path | None, typer.Option(help="Held-out features with labels; a fifth of the bank if not given.")
    ] = None,
    head: Annotated[
        Path | None, typer.Option(help="The last layer: weight, bias, classes; a bank has its own.")
    ] = None,
    images: Annotated[
        Path | None, typer.Option(help="The bank's pictures: corrupted and mixed ones play the unknown as well.")
    ] = None,
    split: Split = None,
    model: Annotated[str | None, typer.Option(help="For --images: the model, if it has moved.")] = None,
    weights: Annotated[Path | None, typer.Option(help="For --images: the checkpoint, if it has moved.")] = None,
    detectors: Annotated[str, typer.Option(help="all, paper, or names with commas between.")] = "all",
    seed: Annotated[int, typer.Option(help="Of the split, the corruptions and the resampling.", min=0)] = 0,
    json_file: Json = None,
) -> None:
    """Choose a detector with no OOD data: each class in turn plays the unknown."""
    names = {"all": list_detectors(), "paper": PAPER}.get(detectors, detectors.split(","))
    features, classes = _labelled(bank, labels)
    found = find_head(head, bank)
    if head is None and found is not None and not np.isin(classes, found.classes).all():
        found = None  # it knows other classes than these: none of its logits could be masked
    made = make_detectors(names, found)
    headless = [name for name, detector in made.items() if found is None and wants_head(detector)]
    if headless:
        error_console.print(f"left out, for they need a head for these classes: {', '.join(headless)}")
        made = {name: detector for name, detector in made.items() if name not in headless}
    rows = np.arange(len(features))
    if held_out is not None:
        train, targets = features, classes
        known, known_labels = _labelled(held_out, None, source_of(bank))
    else:
        kept, rows = train_test_split(rows, test_size=0.2, stratify=classes, random_state=seed)
        train, targets, known, known_labels = features[kept], classes[kept], features[rows], classes[rows]
    near = None
    if images is not None:
        source = held_out if held_out is not None else bank
        pictures = open_images(images, split=split)
        near = _near(source, pictures, None if held_out is not None else rows, seed=seed, model=model, weights=weights)
    with counting("leaving classes out", len(np.unique(targets))) as done:
        choice = leave_classes_out(made, train, targets, known, known_labels, near=near, seed=seed, on_done=done)
    if json_file != "-":
        show_choice(choice)
    if json_file is not None:
        write_json(choice.to_dict(), json_file)


def _near(path: Path, images: Any, rows: Any, **options: Any) -> dict[str, Any]:
    """Return the features of corrupted and mixed pictures of a bank, of some of its rows or of all."""
    from typica.bench.near import near_features  # noqa: PLC0415 (needs torch, which is an extra)

    if not Bank.is_bank(path):
        raise InputError(f"--images: {path} is no bank of `typica extract`; pass one, for its network is needed.")
    bank = Bank.open(path)
    with progress("corrupting and mixing", 0, unit="images/s"):
        return near_features(bank, images, np.arange(len(bank)) if rows is None else rows, **options)


def _labelled(path: Path, labels: Path | None, source: dict[str, Any] | None = None) -> tuple[Any, Any]:
    features, found = read_features(path, source)
    targets = read_labels(labels) if labels is not None else found
    if targets is None:
        raise InputError(f"{path}: holds no labels; pass --labels, or a file with features and labels.")
    if len(targets) != len(features):
        raise InputError(f"{path}: {len(targets)} labels for {len(features)} rows; pass one label a row.")
    return features, targets


def unwrapped(estimator: Any) -> Any:
    """Return the detector or Pipeline itself, without the calibration scores around it."""
    return estimator.detector if isinstance(estimator, ConformalDetector) else estimator
