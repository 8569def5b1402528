"""What a person wants to know about a bank."""

from __future__ import annotations

from typing import Any

from typica.bank._reader import Bank
from typica.errors import FormatError
from typica.files import reading
from typica.origin import PENULTIMATE, feature_layer


def describe_bank(bank: Bank) -> dict[str, Any]:
    """Return what a bank holds, as JSON values: rows, classes, layers, head, settings."""
    with reading(bank.path, "its description of itself makes no sense"):
        return _described(bank)


def _described(bank: Bank) -> dict[str, Any]:
    description: dict[str, Any] = {"rows": len(bank), "features": bank.features.shape[1]}
    description["dtype"] = str(bank.features.dtype)
    if bank.classes is not None:
        description["classes"] = {"n": len(bank.classes), "names": bank.classes}
    if bank.layers:
        description["layers"] = {name: array.shape[1] for name, array in bank.layers.items()}
    for key in ("model", "reduce"):
        if bank.identity.get(key):
            description[key] = bank.identity[key]
    if "layer" in bank.identity:
        description["layer"] = feature_layer(bank.identity["layer"]) or PENULTIMATE
    description["head"] = _head(bank)
    description["skipped"] = len(bank.skipped)
    if bank.accuracy is not None:
        description["top-1"] = bank.accuracy
    return description | {"settings": dict(bank.settings)}


def _head(bank: Bank) -> str:
    try:
        head = bank.head
    except FormatError:  # the rest can be described all the same; `verify` complains
        return "damaged"
    if head is None:
        return "none"
    return f"{len(head.classes)} classes x {head.n_features} features"
