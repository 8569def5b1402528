"""Conformal detectors as file format 1 kept them: read as calibrated detectors, never written."""

from __future__ import annotations

from typing import Any

from typica.calibration import Levels
from typica.decide._identity import fingerprint
from typica.detectors import final_detector
from typica.store import readable


@readable("conformal_detector")
def _conformal_detector(state: dict[str, Any]) -> Any:
    """Return the detector or Pipeline with the calibration that it was kept with."""
    estimator, old = state["detector"], state["calibration"]
    if old is not None:
        levels = Levels.of(state["alpha"], confidence=state["confidence"])
        made = old.calibration(levels, state["by_class"])
        made.scored_by = fingerprint(estimator)
        final_detector(estimator).calibration_ = made
    return estimator
