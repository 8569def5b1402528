"""`typica fit`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from typica.bench.run import wants_head
from typica.cli.about import describe, pairs
from typica.cli.app import Json, app
from typica.cli.checks import check_file, out_file
from typica.cli.show import console, error_console, progress, write_json
from typica.data import find_head, has_logits, read_features, read_labels, source_of
from typica.detectors import detector_class, make_detector
from typica.errors import InputError


@app.command(
    epilog="Example: typica fit train.npy --labels labels.npy -o ctm.safetensors --calibrate held_out.npy"
)
def fit(
    features: Annotated[
        Path, typer.Argument(help="A bank, or features: .npy, .npz, .safetensors, .parquet, .csv.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            callback=out_file,
            help="The detector's file, .safetensors; if not given, one here with the name of the features.",
        ),
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="Labels, if the feature file holds none.")
    ] = None,
    detector: Annotated[str, typer.Option(help="A name that `typica detectors` lists.")] = "ctm",
    param: Annotated[
        list[str] | None,
        typer.Option(help="A parameter of the detector, NAME=VALUE; may be repeated."),
    ] = None,
    head: Annotated[
        Path | None,
        typer.Option(
            help="The last layer: weight, bias, classes (.safetensors, .npz); a bank has its own."
        ),
    ] = None,
    calibrate: Annotated[
        Path | None, typer.Option(help="Held-out in-distribution features for the threshold.")
    ] = None,
    tpr: Annotated[
        float | None,
        typer.Option(
            help="With --calibrate: share of in-distribution inputs to keep; 0.95 if not given."
        ),
    ] = None,
    json_file: Json = None,
) -> None:
    """Fit a detector on training features and set its threshold on held-out ones."""
    if output is not None and output.suffix != ".safetensors":
        raise InputError(f"{output}: a detector is stored as .safetensors; choose such a name.")
    if tpr is not None and calibrate is None:
        raise InputError(
            f"--tpr {tpr}: needs held-out rows, for those of the training would not keep to it; pass --calibrate "
            "HELD_OUT, or leave --tpr out."
        )
    target = _beside(features) if output is None else output
    params = _parameters(param or [])
    found = find_head(head, features)
    if found is not None and (head is not None or wants_head(detector_class(detector))):
        params["head"] = found
    made = make_detector(detector, **params)
    logits = made.tags.reads == "logits" and params.get("head") is None
    train = read_features(features, logits=logits)
    source = source_of(features)
    held_out = (
        read_features(calibrate, source, logits=logits).features if calibrate is not None else None
    )
    targets = read_labels(labels) if labels is not None else train.labels
    if logits:
        rows = (
            "the bank's logits are read" if has_logits(features) else "the rows are taken as logits"
        )
        error_console.print(f"no head: {rows} (pass --head for features)")
    if targets is None and made.tags.uses_labels:
        error_console.print(
            "no labels: all rows count as one class (pass --labels for one mean a class)"
        )
    with progress("fitting", len(train.features)):
        made.fit(train.features, targets)
    if held_out is not None:
        with progress("calibrating", len(held_out)):
            made.calibrate(held_out, tpr=0.95 if tpr is None else tpr)
    else:
        error_console.print(
            "threshold from training rows, which is optimistic; pass --calibrate HELD_OUT"
        )
    if source is not None:
        made.source_ = source
    made.save(target)
    description = describe(made)
    if json_file != "-":
        console.print(pairs(f"wrote {target}", description))
    elif output is None:
        error_console.print(f"wrote {target}", markup=False)
    if json_file is not None:
        write_json(description, json_file)


def _beside(features: Path) -> Path:
    """Return a name for the detector in the current directory; one that nobody has typed replaces no file."""
    path = Path(f"{features.resolve().stem}.safetensors")
    if path.exists():
        raise InputError(
            f"{path}: is there already; pass -o {path} to replace it, or another name."
        )
    check_file(path)
    return path


def _parameters(pairs: list[str]) -> dict[str, Any]:
    params = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise InputError(f"--param {pair}: expected NAME=VALUE, e.g. --param k=50.")
        try:
            params[name] = json.loads(value)
        except ValueError:
            params[name] = {"True": True, "False": False, "None": None}.get(value, value)
    return params
