"""What an exported file says about itself: detector, classes, levels, origin, versions."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

import typica
from typica.decide import fingerprint, origin_of
from typica.detectors import (
    Detector,
    Estimator,
    final_detector,
    input_head,
    pipeline_steps,
    reads_logits,
)
from typica.export._verdicts import Reference


def metadata(estimator: Estimator, reference: Reference) -> dict[str, str]:
    """Return what the file says about itself: texts, lists as JSON."""
    detector = final_detector(estimator)
    calibration = detector.current_calibration()
    origin = origin_of(estimator)
    facts: dict[str, Any] = {
        "detector": detector.kind,
        "typica": typica.__version__,
        "fingerprint": fingerprint(estimator),
        "reads": "logits" if reads_logits(estimator) else "features",
        "calibrated": calibration is not None,
        "classes": _names_to_export(detector),
    }
    if isinstance(estimator, Pipeline):
        facts["steps"] = [type(step).__name__ for step in pipeline_steps(estimator)]
    head = input_head(estimator)
    if head is not None:
        facts["logit_classes"] = head.classes.tolist()
    if calibration is not None:
        facts |= calibration.levels.to_dict()
        facts["by_class"] = calibration.by_class
    if reference.scores is not None:
        facts["calibration_scores"] = len(reference.scores)
    if origin is not None:
        facts |= {"model": origin.model, "origin": origin.fingerprint()}
    return {key: _text(value) for key, value in facts.items()}


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value)


def _names_to_export(detector: Detector) -> list[Any]:
    """Return the classes that an exported file names: those that `nearest` counts, if any."""
    return list(getattr(detector, "classes_", np.array([])).tolist())
