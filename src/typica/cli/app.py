"""The commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.table import Table

import typica
from typica import store
from typica.arrays import row_blocks
from typica.bench.run import PAPER, make_detectors, wants_head
from typica.bench.run import compare as run_comparison
from typica.cli.show import (
    comparison_table,
    console,
    counting,
    error_console,
    evaluation_table,
    footnote,
    percent,
    progress,
    table,
    write_json,
)
from typica.data.tables import RowWriter, read_features, read_head, read_labels
from typica.detectors import Detector, Tags, detector_class, list_detectors, make_detector
from typica.errors import InputError
from typica.exact import json_number
from typica.metrics import evaluate_many
from typica.pipelines import detector_input, final_detector

app = typer.Typer(
    help="Know when a trained classifier is looking at something it does not know.",
    epilog="Start with: typica demo. Any command takes --debug to show the traceback of an error.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[str | None, typer.Option("--json", metavar="FILE", help="Write the result as JSON; - prints it.")]
Tpr = Annotated[float, typer.Option(help="Share of in-distribution inputs to keep.")]
SHOWN = 20  # rows of a long table that are printed


def _version(wanted: bool) -> None:
    if wanted:
        console.print(f"typica {typica.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command(epilog="Example: typica fit train.npy --labels labels.npy -o ctm.safetensors --calibrate held_out.npy")
def fit(
    features: Annotated[Path, typer.Argument(help="Training features: .npy, .npz, .safetensors, .parquet, .csv.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The detector's file, .safetensors.")],
    labels: Annotated[Path | None, typer.Option(help="Labels, if the feature file holds none.")] = None,
    detector: Annotated[str, typer.Option(help="A name that `typica detectors` lists.")] = "ctm",
    param: Annotated[
        list[str] | None, typer.Option(help="A parameter of the detector, NAME=VALUE; may be repeated.")
    ] = None,
    head: Annotated[
        Path | None, typer.Option(help="The last layer: weight, bias, classes (.safetensors, .npz).")
    ] = None,
    calibrate: Annotated[Path | None, typer.Option(help="Held-out in-distribution features for the threshold.")] = None,
    tpr: Tpr = 0.95,
    json_file: Json = None,
) -> None:
    """Fit a detector on training features and set its threshold on held-out ones."""
    if output.suffix != ".safetensors":
        raise InputError(f"{output}: a detector is stored as .safetensors; choose such a name.")
    params = _parameters(param or [])
    if head is not None:
        params["head"] = read_head(head)
    made = make_detector(detector, **params)
    train = read_features(features)
    held_out = read_features(calibrate).features if calibrate is not None else None
    targets = read_labels(labels) if labels is not None else train.labels
    if head is None and made.tags.reads == "logits":
        error_console.print("no head: the rows are taken as logits (pass --head for features)")
    if targets is None and made.tags.uses_labels:
        error_console.print("no labels: all rows count as one class (pass --labels for one mean a class)")
    with progress("fitting", len(train.features)):
        made.fit(train.features, targets)
    if held_out is not None:
        with progress("calibrating", len(held_out)):
            made.calibrate(held_out, tpr=tpr)
    else:
        error_console.print("threshold from training rows, which is optimistic; pass --calibrate HELD_OUT")
    made.save(output)
    description = describe(made)
    if json_file != "-":
        console.print(_pairs(f"wrote {output}", description))
    if json_file is not None:
        write_json(description, json_file)


@app.command(epilog="Example: typica score ctm.safetensors new.npy -o scores.csv")
def score(
    detector: Annotated[Path, typer.Argument(help="A file that `typica fit` wrote.")],
    features: Annotated[Path, typer.Argument(help="Features to judge.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write every row: .csv, .jsonl or .parquet.")
    ] = None,
    limit: Annotated[int, typer.Option(help="How many rows to print.", min=0)] = SHOWN,
    json_file: Json = None,
) -> None:
    """Score features: typical or not, the nearest class and its margin over the next."""
    estimator = typica.load(detector)
    final = final_detector(estimator, "score")
    rows = read_features(features).features
    writer = RowWriter(output) if output is not None else None
    shown: list[dict[str, Any]] = []
    keep = len(rows) if json_file is not None else limit
    rejected = 0

    def work() -> None:
        nonlocal rejected
        for block in row_blocks(len(rows), rows.shape[1]):
            columns = _judge(estimator, final, rows[block], block.start)
            rejected += columns["verdict"].count("OOD")
            if writer is not None:
                writer.write(columns)
            if len(shown) < keep:
                records = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
                shown.extend(records[: keep - len(shown)])

    with progress("scoring", 2 * len(rows)):
        if writer is None:
            work()
        else:
            with writer:
                work()
    if json_file != "-":
        console.print(_score_table(shown[:limit]))
        more = f" (first {limit} shown)" if limit < len(rows) else ""
        console.print(f"{rejected} of {len(rows)} rows are OOD, {percent(rejected / len(rows))} %{more}")
        if output is not None:
            error_console.print(f"wrote {output}")
    if json_file is not None:
        calibration = final.calibration_
        document = {
            "detector": final.kind, "threshold": json_number(calibration.threshold), "tpr": calibration.tpr,
            "n": len(rows), "rejected": rejected, "rows": shown,
        }  # fmt: skip
        write_json(document, json_file)


@app.command(epilog="Example: typica evaluate ctm.safetensors --id test.npy --ood svhn=svhn.npy --ood textures=dtd.npy")
def evaluate(
    detector: Annotated[Path, typer.Argument(help="A file that `typica fit` wrote.")],
    in_distribution: Annotated[Path, typer.Option("--id", help="In-distribution test features.")],
    ood: Annotated[list[str], typer.Option(help="An OOD set, NAME=FILE; may be repeated.")],
    tpr: Tpr = 0.95,
    convention: Annotated[str, typer.Option(help="How FPR is defined: first, interpolated or rank.")] = "first",
    bootstrap: Annotated[int, typer.Option(help="Resamples for 95 % confidence intervals.", min=0)] = 0,
    json_file: Json = None,
) -> None:
    """Measure how well a detector tells in-distribution from OOD features."""
    estimator = typica.load(detector)
    final = final_detector(estimator, "evaluate")
    known = read_features(in_distribution).features
    sets = {name: read_features(path).features for name, path in _named_files(ood).items()}
    with progress("scoring", len(known) + sum(map(len, sets.values()))):
        known_scores = estimator.score_samples(known)
        scores = {name: estimator.score_samples(rows) for name, rows in sets.items()}
    evaluation = evaluate_many(final.kind, known_scores, scores, tpr=tpr, convention=convention, bootstrap=bootstrap)
    if json_file != "-":
        title = f"{final.kind} on {in_distribution.name}, {len(known)} ID inputs"
        console.print(evaluation_table(evaluation, title))
        if bootstrap:
            console.print(_interval_table(evaluation))
        console.print(footnote(next(iter(evaluation.ood.values()))), style="dim")
    if json_file is not None:
        write_json(evaluation.to_dict(), json_file)


@app.command(
    epilog="Example: typica compare train.npy --labels y.npy --head head.safetensors --id test.npy --ood svhn=svhn.npy"
)
def compare(
    features: Annotated[Path, typer.Argument(help="Training features.")],
    in_distribution: Annotated[Path, typer.Option("--id", help="In-distribution test features.")],
    ood: Annotated[list[str], typer.Option(help="An OOD set, NAME=FILE; may be repeated.")],
    labels: Annotated[Path | None, typer.Option(help="Labels, if the feature file holds none.")] = None,
    head: Annotated[Path | None, typer.Option(help="The last layer: weight, bias, classes.")] = None,
    detectors: Annotated[str, typer.Option(help="all, paper, or names with commas between.")] = "all",
    tpr: Tpr = 0.95,
    json_file: Json = None,
) -> None:
    """Fit every detector on the same features and show which tells ID from OOD best."""
    names = {"all": list_detectors(), "paper": PAPER}.get(detectors, detectors.split(","))
    made = make_detectors(names, None if head is None else read_head(head))
    headless = [name for name, detector in made.items() if head is None and wants_head(detector)]
    if headless:
        error_console.print(f"left out, for they need --head: {', '.join(headless)}")
        made = {name: detector for name, detector in made.items() if name not in headless}
    train = read_features(features)
    targets = read_labels(labels) if labels is not None else train.labels
    known = read_features(in_distribution).features
    sets = {name: read_features(path).features for name, path in _named_files(ood).items()}
    with counting("comparing", len(made)) as done:
        rows = run_comparison(made, train.features, targets, known, sets, tpr=tpr, on_done=done)
    if json_file != "-":
        console.print(comparison_table(rows, f"AUROC ↑ on {in_distribution.name}, best in bold"))
        footnotes = [row.evaluation for row in rows.values() if row.evaluation is not None]
        if footnotes:
            console.print(footnote(next(iter(footnotes[0].ood.values()))), style="dim")
        for name, row in rows.items():
            if row.error:
                console.print(f"{name}: {row.error}", style="red", markup=False)
    if json_file is not None:
        write_json({name: row.to_dict() for name, row in rows.items()}, json_file)
    if not any(row.evaluation for row in rows.values()):
        raise InputError("compare: every detector failed; see the messages above.")


@app.command(epilog="Example: typica info ctm.safetensors")
def info(
    detector: Annotated[Path, typer.Argument(help="A file that `typica fit` wrote.")],
    json_file: Json = None,
) -> None:
    """Show what a detector's file holds."""
    document, _ = store.read(detector)
    estimator = typica.load(detector)
    description = describe(estimator)
    description |= {
        "written by": f"typica {document['library']}, format {document['format']}",
        "bytes": detector.stat().st_size,
    }
    if json_file != "-":
        console.print(_pairs(str(detector), description))
    if json_file is not None:
        write_json(description, json_file)


@app.command(epilog="Example: typica detectors --json -")
def detectors(json_file: Json = None) -> None:
    """List the detectors and what they need."""
    described = {}
    for name in list_detectors():
        cls = detector_class(name)
        tags = cls.tags
        described[name] = {
            "needs": _needs(tags),
            "uses_labels": tags.uses_labels,
            "mergeable": tags.mergeable,
            "differentiable": tags.differentiable,
            "saveable": tags.saveable,
            "params": {k: None if k == "head" else v for k, v in cls().get_params(deep=False).items()},
            "score_cost": tags.score_cost,
            "summary": (cls.__doc__ or "").strip().partition("\n")[0],
        }
    if json_file != "-":
        rows = [
            [
                name,
                ", ".join(entry["needs"]),  # type: ignore[arg-type]
                "yes" if entry["mergeable"] else "no",
                str(entry["summary"]),
            ]
            for name, entry in described.items()
        ]
        console.print(table("", ["detector", "needs", "merges", "what it is"], rows, text=4))
    if json_file is not None:
        write_json(described, json_file)


@app.command(epilog="Example: typica demo")
def demo(
    seed: Annotated[int, typer.Option(help="Of the network, the splits and the noise.", min=0)] = 0,
    json_file: Json = None,
) -> None:
    """Train a small classifier on handwritten digits, fit detectors, and show it what it has never seen."""
    from typica.cli.demo import run  # noqa: PLC0415 (loads the network's library)

    run(seed, json_file)


def _needs(tags: Tags) -> list[str]:
    """Return what a detector is given beside or instead of features."""
    needs = ["logits or head"] if tags.reads == "logits" else ["head"] if tags.needs_head else []
    if tags.uses_labels:
        needs.append("labels" if tags.needs_labels else "(labels)")
    return needs or ["features"]


def describe(estimator: Any) -> dict[str, Any]:
    """Return what a person wants to know of a fitted detector, as JSON values."""
    final = final_detector(estimator, "info")
    steps = [type(part).__name__ for _, part in getattr(estimator, "steps", [])[:-1]]
    params = {key: value for key, value in final.get_params(deep=False).items() if key != "head"}
    classes = _classes(final)
    description: dict[str, Any] = {"detector": final.kind, "params": params}
    if steps:
        description["after"] = steps
    description["features"] = final.n_features
    if classes is not None:
        description["classes"] = {"n": len(classes), "names": classes.tolist()}
    calibration = getattr(final, "calibration_", None)
    if calibration is not None:
        description["threshold"] = json_number(calibration.threshold)
        description["calibration"] = {
            "source": calibration.source, "n": calibration.n, "tpr": calibration.tpr, "k": calibration.k,
        }  # fmt: skip
    return description


def _classes(detector: Detector) -> NDArray[Any] | None:
    try:
        return detector.classes_
    except AttributeError:
        return None


def _pairs(title: str, description: dict[str, Any]) -> Table:
    rows = []
    for key, value in description.items():
        if key == "classes":
            names = ", ".join(map(str, value["names"][:8])) + (" ..." if value["n"] > 8 else "")
            rows.append([key, f"{value['n']}: {names}"])
        elif isinstance(value, dict):
            rows.append([key, ", ".join(f"{k}={v}" for k, v in value.items()) or "-"])
        else:
            rows.append([key, ", ".join(value) if isinstance(value, list) else str(value)])
    made = table(title, ["", ""], rows, text=2)
    made.show_header = False
    return made


def _judge(estimator: Any, final: Detector, rows: NDArray[Any], start: int) -> dict[str, list[Any]]:
    """Return the columns of the result for a block of rows that begins at row `start`."""
    Z = detector_input(estimator, rows)
    scores = np.asarray(final.score_samples(Z))
    accepted = scores >= final.calibration_.threshold
    columns: dict[str, list[Any]] = {
        "row": list(range(start, start + len(rows))),
        "score": scores.tolist(),
        "verdict": ["ID" if verdict else "OOD" for verdict in accepted],
    }
    matches = final.match(Z)
    if matches is not None:
        margins = (matches.similarity - matches.runner_up_similarity).tolist()
        columns["nearest"] = final.classes_[matches.nearest].tolist()
        columns["margin"] = [None if np.isnan(margin) else margin for margin in margins]
    return columns


def _score_table(shown: list[dict[str, Any]]) -> Table:
    columns = list(shown[0]) if shown else ["row", "score", "verdict"]
    made = Table(box=None, pad_edge=False)
    for column in columns:
        made.add_column(column, justify="left" if column in ("verdict", "nearest") else "right")
    for record in shown:
        cells = [
            "-" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)
            for value in record.values()
        ]
        made.add_row(*cells, style="red" if record["verdict"] == "OOD" else "")
    return made


def _interval_table(evaluation: Any) -> Table:
    metrics = ("fpr", "auroc", "aupr_in", "aupr_out")
    rows = [
        [name, *("{}-{}".format(*map(percent, result.intervals[metric])) for metric in metrics)]
        for name, result in evaluation.ood.items()
    ]
    return table("95 % confidence intervals", ["OOD set", *metrics], rows)


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


def _named_files(pairs: list[str]) -> dict[str, Path]:
    files = {}
    for pair in pairs:
        name, equals, path = pair.partition("=")
        if not equals:
            name, path = Path(pair).stem, pair
        if not name or not path:
            raise InputError(f"--ood {pair}: expected NAME=FILE, e.g. --ood svhn=svhn.npy.")
        if name in files:
            raise InputError(f"--ood {pair}: the name {name!r} is given twice; choose another.")
        files[name] = Path(path)
    return files
