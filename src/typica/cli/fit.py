"""`typica fit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from typica.bench import fit_files
from typica.cli._app import new_app
from typica.cli._option_checks import check_ending, check_out_file, out_file
from typica.cli._option_values import read_params
from typica.cli._options import (
    Address,
    Alpha,
    Backend,
    Classes,
    Engine,
    FeatureColumn,
    FeatureColumns,
    Json,
    MovedModel,
    MovedWeights,
    OnError,
    Tpr,
    Transform,
    Trust,
    network,
)
from typica.cli._show import present, say_written
from typica.data import read_classes
from typica.decide import describe
from typica.detectors import detector_class
from typica.errors import InputError
from typica.files import is_same_file
from typica.scale import fixed_part, is_pattern

app = new_app()


@app.command(
    epilog="Example: typica fit train.npy --labels labels.npy -o ctm.safetensors "
    "--calibrate held_out.npy; of tables: typica fit 'embeddings/*.parquet' --features embedding "
    "--labels label"
)
def fit(
    features: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A bank, features (.npy, .npz, .safetensors, .parquet, .csv), or images in one "
            "folder per class, with --model. Tables of any size: Parquet or Arrow files, a folder "
            "or a pattern ('embeddings/*.parquet') of them, or an address (s3://...).",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            callback=out_file,
            help="The detector's file, .safetensors; if not given, one in the current folder, "
            "named after the features.",
        ),
    ] = None,
    labels: Annotated[
        str | None, typer.Option(help="Labels, if the features hold none: a file, or a column.")
    ] = None,
    feature_column: FeatureColumn = None,
    columns: FeatureColumns = None,
    sample: Annotated[
        int | None,
        typer.Option(help="For tables: fit on only this many rows, chosen at random.", min=1),
    ] = None,
    engine: Engine = None,
    address: Address = None,
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
        list[str] | None,
        typer.Option(
            help="Held-out in-distribution inputs for the threshold: features, tables, or images "
            "and folders; may be repeated."
        ),
    ] = None,
    alpha: Alpha = None,
    tpr: Tpr = None,
    model: MovedModel = None,
    weights: MovedWeights = None,
    transform: Transform = None,
    classes: Classes = None,
    trust: Trust = False,
    backend: Backend = "auto",
    on_error: OnError = "stop",
    json_file: Json = None,
) -> None:
    """Fit a detector on training features and set its threshold on held-out ones."""
    target = _beside(features) if output is None else output
    check_ending(target, ".safetensors", "a detector")
    _check_can_be_stored(detector)
    fitted = fit_files(
        features,
        detector,
        params=read_params(detector, param or []),
        labels=labels,
        head=head,
        calibrate=calibrate or (),
        alpha=alpha,
        tpr=tpr,
        classes=None if classes is None else read_classes(classes),
        columns={"features": feature_column, "columns": columns or None, "sample": sample},
        engine=engine,
        address=address,
        **network(model, weights, transform, trust, backend, on_error),
    )
    made = fitted.detector
    made.save(target)
    if json_file == "-" and output is None:
        say_written(target)
    lines = [
        f"wrote {target}",
        repr(made),
        f"fitted on {fitted.n} rows",
        f"typica info {target} shows the rest",
    ]
    present(describe(made), json_file, *lines)


def _check_can_be_stored(detector: str) -> None:
    """Refuse `typica fit --detector` of what no file can hold, before it is fitted."""
    if not detector_class(detector).tags.saveable:
        raise InputError(
            f"--detector {detector}: holds objects that only pickle can store, and this command "
            "writes a file; choose another, or fit it in Python."
        )


def _beside(features: str) -> Path:
    """Return a name in the current directory; as nobody typed it, it must not replace a file."""
    named = features if not is_pattern(features) else fixed_part(features)
    path = Path(f"{Path(named).resolve().stem}.safetensors")
    if is_same_file(path, features):
        raise InputError(f"{path}: is the file of features itself; pass -o NAME.")
    if path.exists():
        raise InputError(f"{path}: exists already; pass -o {path} to replace it, or another name.")
    check_out_file(path)
    return path
