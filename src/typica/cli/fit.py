"""`typica fit`."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from typica.arrays import AnyArray
from typica.bank import Bank
from typica.cli.app import new_app
from typica.cli.checks import check_file, out_file, read_transform
from typica.cli.options import (
    Alpha,
    Backend,
    Classes,
    Json,
    Labels,
    MovedModel,
    MovedWeights,
    OnError,
    Tpr,
    Transform,
    Trust,
)
from typica.cli.show import error_console, present
from typica.data import (
    FeatureFile,
    find_head,
    holds_images,
    open_features,
    read_classes,
    read_labels,
)
from typica.decide import describe
from typica.detectors import (
    Detector,
    make_detector,
    parse_params,
    reads_layers,
    reads_logits,
    takes_head,
)
from typica.errors import InputError, InputWarning
from typica.nets import InputReader, Settings
from typica.progress import note, work

app = new_app()


@app.command(
    epilog="Example: typica fit train.npy --labels labels.npy -o ctm.safetensors "
    "--calibrate held_out.npy"
)
def fit(
    features: Annotated[
        Path,
        typer.Argument(
            help="A bank, features (.npy, .npz, .safetensors, .parquet, .csv), or images in one "
            "folder per class, with --model."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            callback=out_file,
            help="The detector's file, .safetensors; if not given, one here with the name of the "
            "features.",
        ),
    ] = None,
    labels: Labels = None,
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
        list[Path] | None,
        typer.Option(
            help="Held-out in-distribution inputs for the threshold: features, or images and "
            "folders; may be repeated."
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
    _check(output, calibrate, {"--alpha": alpha, "--tpr": tpr})
    target = _beside(features) if output is None else output
    network: dict[str, Any] = {
        "model": model,
        "weights": weights,
        "transform": read_transform(transform),
        "trust": trust,
        "settings": Settings(backend=backend, on_error=on_error),  # type: ignore[arg-type]
    }
    if holds_images(features):
        # Needs torch, which is an extra.
        from typica.bench import banked  # noqa: PLC0415

        names = None if classes is None else read_classes(classes)
        features = banked(features, classes=names, **network)
    opened = open_features(features)
    made = _make(detector, param or [], head, opened)
    logits = reads_logits(made)
    train, origin = opened.read(logits=logits), opened.origin
    reader = InputReader(origin, logits, whose=str(features), **network)
    layered = opened.bank if made.tags.reads == "layers" else None
    held_out = reader.rows(calibrate) if calibrate and layered is None else None
    targets = train.labels if labels is None else read_labels(labels)
    if logits:
        _say_what_are_logits(opened)
        targets = _to_check_by(made, opened, targets)
    if targets is None and made.tags.uses_labels:
        note("no labels: all rows count as one class (pass --labels for one mean per class)")
    with work("fitting", len(train.features)):
        _fit(made, train.features if layered is None else layered, targets)
    if calibrate and layered is not None:
        reader.layers = reads_layers(made)  # which ones is known by now
        held_out = reader.rows(calibrate)
    _set_threshold(made, held_out, alpha, tpr)
    if reader.opened_origin is not None:
        made.origin_ = origin or reader.opened_origin
    made.save(target)
    if json_file == "-" and output is None:
        error_console.print(f"wrote {target}", markup=False)
    lines = [
        f"wrote {target}",
        repr(made),
        f"fitted on {len(train.features)} rows",
        f"typica info {target} shows the rest",
    ]
    present(describe(made), json_file, *(Text(line) for line in lines))


def _check(
    output: Path | None, calibrate: list[Path] | None, levels: dict[str, str | None]
) -> None:
    """Raise for options that make no sense, before any work."""
    if output is not None and output.suffix != ".safetensors":
        raise InputError(f"{output}: a detector is stored as .safetensors; choose such a name.")
    for option, level in levels.items():
        if level is not None and calibrate is None:
            raise InputError(
                f"{option} {level}: needs held-out rows, for those of the training would not keep "
                f"to it; pass --calibrate HELD_OUT, or leave {option} out."
            )


def _make(name: str, pairs: list[str], head: Path | None, features: FeatureFile) -> Detector:
    """Make the detector, with the head that was given or, where it takes one, the bank's own."""
    params = parse_params(name, _texts(pairs))
    found = find_head(head, features)
    made = make_detector(name, **params)
    if found is None or (head is None and not takes_head(made)):
        return made
    return make_detector(name, **params, head=found)


def _say_what_are_logits(features: FeatureFile) -> None:
    rows = "bank's logits are read" if features.has_logits else "rows are taken as logits"
    note(f"no head: the {rows} (pass --head for features)")


def _to_check_by(
    detector: Detector, features: FeatureFile, labels: AnyArray | None
) -> AnyArray | None:
    """Return the labels, unless nobody needs them: a bank's logits are known to be logits."""
    known = features.has_logits and not detector.tags.uses_labels
    return None if known else labels


def _fit(detector: Detector, features: AnyArray | Bank, labels: AnyArray | None) -> None:
    with warnings.catch_warnings():
        # What are logits was just said.
        warnings.filterwarnings("ignore", r".* is taken as logits", InputWarning)
        detector.fit(features, labels)


def _set_threshold(
    detector: Detector, held_out: AnyArray | None, alpha: str | None, tpr: str | None
) -> None:
    """Calibrate on held-out rows; say what the threshold of the fit is worth without them."""
    if held_out is None:
        note("threshold from training rows, which is optimistic; pass --calibrate HELD_OUT")
        return
    with work("calibrating", len(held_out)):
        detector.calibrate(held_out, alpha=alpha, tpr=tpr)


def _beside(features: Path) -> Path:
    """Return a name in the current directory; one that nobody has typed replaces no file."""
    path = Path(f"{features.resolve().stem}.safetensors")
    if path.exists():
        raise InputError(
            f"{path}: is there already; pass -o {path} to replace it, or another name."
        )
    check_file(path)
    return path


def _texts(pairs: list[str]) -> dict[str, str]:
    """Return the values of NAME=VALUE by their names."""
    texts = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise InputError(f"--param {pair}: expected NAME=VALUE, e.g. --param k=50.")
        texts[name] = value
    return texts
