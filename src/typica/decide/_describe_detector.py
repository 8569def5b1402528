"""What a person wants to know about a fitted detector, or about its file."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from typica import store
from typica.arrays import AnyArray
from typica.as_json import json_number
from typica.detectors import (
    TRAINING_TPR,
    Detector,
    Estimator,
    array_text,
    final_detector,
    load_detector,
)
from typica.errors import border
from typica.verdicts import Verdicts

_RULE = ("threshold", "thresholds", "tpr", "alpha", "confidence")


@border
def describe(estimator: Estimator) -> dict[str, Any]:
    """Return what a fitted detector, or a Pipeline that ends in one, knows, as JSON values."""
    final = final_detector(estimator)
    params = final.get_params(deep=False)
    params.pop("head", None)
    description: dict[str, Any] = {"detector": final.kind, "params": _as_told(params)}
    steps = [type(part).__name__ for _, part in getattr(estimator, "steps", [])[:-1]]
    if steps:
        description["after"] = steps
    description["features"] = final.n_features
    classes = _classes(final)
    if classes is not None:
        description["classes"] = {"n": len(classes), "names": classes.tolist()}
    origin = getattr(final, "origin_", None)
    if origin is not None:
        known = dataclasses.replace(origin, probe=None).to_dict().items()
        description["origin"] = {key: value for key, value in known if value is not None}
    return description | _decisions(final)


@border
def describe_rule(estimator: Estimator, verdicts: Verdicts, *, asked: bool) -> dict[str, Any]:
    """Return which detector and which rule decided the verdicts, as JSON values.

    asked: whether levels were asked for, in place of those that the detector was calibrated with.
    """
    described = describe(estimator)
    named = {"detector": described["detector"]}
    if asked and verdicts.rule is not None:
        return named | verdicts.rule.to_dict()
    known = described | described.get("calibration", {})
    return named | {key: known[key] for key in _RULE if key in known}


def describe_file(path: str | Path) -> dict[str, Any]:
    """Return what a file of a detector holds, and what wrote it, as JSON values."""
    path = Path(path)
    document, _ = store.read(path)
    return describe(load_detector(path)) | {
        "written by": f"typica {document['library']}, format {document['format']}",
        "bytes": path.stat().st_size,
    }


def _as_told(value: Any) -> Any:
    """Return a parameter, or a dict of them, as JSON can hold it.

    Arrays are described by their shapes, members of an Ensemble and other objects by their texts.
    """
    if isinstance(value, Mapping):
        return {str(name): _as_told(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_as_told(part) for part in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return json_number(value)
    if value is None or isinstance(value, str | int):
        return value
    return array_text(value) or str(value)


def _decisions(detector: Detector) -> dict[str, Any]:
    """Return the threshold or thresholds, and what they come from."""
    calibration = detector.current_calibration()
    if calibration is None:
        offset = getattr(detector, "training_offset_", None)
        if offset is None:
            return {}
        training = {"source": "training", "tpr": TRAINING_TPR}
        return {"threshold": json_number(offset), "calibration": training}
    told = calibration.to_dict()
    groups = told.pop("groups")
    known = {"source": "held-out", "n": calibration.n, "tpr": calibration.tpr}
    if calibration.by_class:
        thresholds = {group: entry["threshold"] for group, entry in groups.items()}
        return {"thresholds": thresholds, "calibration": known | told}
    known["k"] = groups["all"]["k"]
    return {"threshold": groups["all"]["threshold"], "calibration": known | told}


def _classes(detector: Detector) -> AnyArray | None:
    try:
        return detector.classes_
    except AttributeError:
        return None
