"""What a person wants to know of a fitted detector, or of the file it lies in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from typica import store
from typica.decide._conformal import ConformalDetector
from typica.detectors import Detector, final_detector
from typica.exact import json_number


def describe(estimator: Any) -> dict[str, Any]:
    """Return what a fitted detector, or a Pipeline that ends in one, knows, as JSON values."""
    if isinstance(estimator, ConformalDetector):
        return describe(estimator.detector) | {"p-values": _levels(estimator)}
    final = final_detector(estimator)
    params = final.get_params(deep=False)
    params.pop("head", None)
    description: dict[str, Any] = {"detector": final.kind, "params": params}
    steps = [type(part).__name__ for _, part in getattr(estimator, "steps", [])[:-1]]
    if steps:
        description["after"] = steps
    description["features"] = final.n_features
    classes = _classes(final)
    if classes is not None:
        description["classes"] = {"n": len(classes), "names": classes.tolist()}
    source = getattr(final, "source_", None)
    if source is not None:
        description["source"] = {key: value for key, value in source.items() if value is not None}
    return description | _threshold(final)


def describe_file(path: str | Path) -> dict[str, Any]:
    """Return what a file of a detector holds, and what wrote it, as JSON values."""
    path = Path(path)
    document, _ = store.read(path)
    return describe(store.load(path)) | {
        "written by": f"typica {document['library']}, format {document['format']}",
        "bytes": path.stat().st_size,
    }


def _levels(conformal: ConformalDetector) -> dict[str, Any]:
    summary = conformal.summary()
    return {key: summary[key] for key in ("n", "by_class", "alpha", "confidence")}


def _threshold(detector: Detector) -> dict[str, Any]:
    calibration = getattr(detector, "calibration_", None)
    if calibration is None:
        return {}
    told = {key: getattr(calibration, key) for key in ("source", "n", "tpr", "k")}
    return {"threshold": json_number(calibration.threshold), "calibration": told}


def _classes(detector: Detector) -> NDArray[Any] | None:
    try:
        return detector.classes_
    except AttributeError:
        return None
