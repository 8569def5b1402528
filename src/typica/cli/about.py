"""`typica info`, `typica detectors` and `typica demo`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from numpy.typing import NDArray
from rich.console import RenderableType
from rich.markup import escape

import typica
from typica import store
from typica.bank import Bank
from typica.cli.app import Json, app
from typica.cli.show import console, progress, table, write_json
from typica.decide import ConformalDetector
from typica.detectors import Detector, Tags, detector_class, final_detector, list_detectors
from typica.errors import FormatError, InputError
from typica.exact import json_number
from typica.origin import feature_layer


@app.command(epilog="Example: typica info train.bank --verify")
def info(
    path: Annotated[
        Path,
        typer.Argument(help="A detector that `typica fit` wrote, or a bank of `typica extract`."),
    ],
    verify: Annotated[
        bool, typer.Option("--verify", help="Read all data and check it against its checksums.")
    ] = False,
    json_file: Json = None,
) -> None:
    """Show what a detector's file or a bank holds."""
    if path.is_dir() and not Bank.is_bank(path):
        raise InputError(
            f"{path}: a folder, but no bank; pass a bank of `typica extract`, or a detector's file."
        )
    if Bank.is_bank(path):
        bank = Bank.open(path)
        description = describe_bank(bank)
        if verify:
            with progress("verifying", len(bank)):
                description["verified"] = {"rows": len(bank), "bytes": bank.verify()}
    else:
        description = _describe_file(path)
        if verify:  # reading a detector's file is checking it
            description["verified"] = {"bytes": description["bytes"]}
    if json_file != "-":
        console.print(pairs(str(path), description))
    if json_file is not None:
        write_json(description, json_file)


def _describe_file(path: Path) -> dict[str, Any]:
    document, _ = store.read(path)
    estimator = typica.load(path)
    conformal = estimator if isinstance(estimator, ConformalDetector) else None
    description = describe(estimator if conformal is None else conformal.detector)
    if conformal is not None:
        description["p-values"] = {
            key: conformal.summary()[key] for key in ("n", "by_class", "alpha", "confidence")
        }
    return description | {
        "written by": f"typica {document['library']}, format {document['format']}",
        "bytes": path.stat().st_size,
    }


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
            "params": {
                k: None if k == "head" else v for k, v in cls().get_params(deep=False).items()
            },
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
    final = final_detector(estimator)
    steps = [type(part).__name__ for _, part in getattr(estimator, "steps", [])[:-1]]
    params = {key: value for key, value in final.get_params(deep=False).items() if key != "head"}
    classes = _classes(final)
    description: dict[str, Any] = {"detector": final.kind, "params": params}
    if steps:
        description["after"] = steps
    description["features"] = final.n_features
    if classes is not None:
        description["classes"] = {"n": len(classes), "names": classes.tolist()}
    source = getattr(final, "source_", None)
    if source is not None:
        description["source"] = {key: value for key, value in source.items() if value is not None}
    calibration = getattr(final, "calibration_", None)
    if calibration is not None:
        description["threshold"] = json_number(calibration.threshold)
        description["calibration"] = {
            "source": calibration.source, "n": calibration.n, "tpr": calibration.tpr, "k": calibration.k,
        }  # fmt: skip
    return description


def describe_bank(bank: Bank) -> dict[str, Any]:
    """Return what a person wants to know of a bank, as JSON values."""
    description: dict[str, Any] = {"rows": len(bank), "features": bank.features.shape[1]}
    description["dtype"] = str(bank.features.dtype)
    if bank.classes is not None:
        description["classes"] = {"n": len(bank.classes), "names": bank.classes}
    if bank.layers:
        description["layers"] = {name: array.shape[1] for name, array in bank.layers.items()}
    description |= {
        key: bank.identity[key] for key in ("model", "reduce") if bank.identity.get(key)
    }
    if "layer" in bank.identity:
        description["layer"] = feature_layer(bank.identity["layer"]) or "penultimate"
    description["head"] = _head(bank)
    description["skipped"] = len(bank.skipped)
    if bank.accuracy is not None:
        description["top-1"] = bank.accuracy
    return description | {"settings": dict(bank.settings)}


def _head(bank: Bank) -> str:
    try:
        head = bank.head
    except FormatError:  # what else is in the bank can be told all the same; --verify complains
        return "damaged"
    return "none" if head is None else f"{len(head.classes)} classes x {head.n_features} features"


def _classes(detector: Detector) -> NDArray[Any] | None:
    try:
        return detector.classes_
    except AttributeError:
        return None


def pairs(title: str, description: dict[str, Any]) -> RenderableType:
    """Return a description as a table of two columns; what is nested is indented, one pair a line."""
    rows = [[escape(key), escape(value)] for key, value in _lines(description)]
    return table(title, ["", ""], rows, text=2, header=False)


def _lines(description: dict[str, Any], indent: str = "") -> Iterator[tuple[str, str]]:
    for key, value in description.items():
        if key == "classes" and not indent:
            names = ", ".join(map(str, value["names"][:8])) + (" ..." if value["n"] > 8 else "")
            yield indent + key, f"{value['n']}: {names}"
        elif isinstance(value, dict) and value:
            yield indent + key, ""
            yield from _lines(value, indent + "  ")
        elif isinstance(value, list | dict):
            yield indent + key, ", ".join(map(str, value)) or "-"
        else:
            yield indent + key, str(value)
