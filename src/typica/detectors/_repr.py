"""A fitted detector in one line, and as a card for notebooks."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from typica.cards import card
from typica.errors import listed
from typica.origin import PENULTIMATE

if TYPE_CHECKING:
    from typica.detectors.base import Detector

LONG = 40  # characters of a parameter that is not worth showing
NAMED = 8  # classes that a card names
PROVISIONAL = (
    "The threshold comes from training rows, which is optimistic; calibrate it on held-out inputs."
)


def summary(detector: Detector) -> str:
    """Return the repr of a fitted detector, as `CTM: 7 classes, 64 features, threshold 0.888`."""
    detector._drop_stale_decisions()
    classes = getattr(detector, "classes_", None)
    parts = [] if classes is None else [_counted(len(classes), "class", "classes")]
    if detector.n_features is not None:
        parts.append(_counted(detector.n_features, "feature", "features"))
    return f"{_repr_name(detector)}: {', '.join([*parts, threshold_line(detector)])}"


def fitted_card(detector: Detector) -> str:
    """Return what a fitted detector knows and was made with, as HTML."""
    detector._drop_stale_decisions()
    rows: list[list[object]] = []
    classes = getattr(detector, "classes_", None)
    if classes is not None:
        rows.append(["classes", listed(classes, NAMED)])
    for name, value in detector.get_params(deep=False).items():
        if name != "head" or value is not None:
            rows.append([name, array_text(value) or repr(value)])
    origin = getattr(detector, "origin_", None)
    if origin is not None:
        rows.append(["network", f"{origin.model}, layer {origin.layer or PENULTIMATE}"])
    calibrated = hasattr(detector, "calibration_")
    return card(summary(detector), rows, note="" if calibrated else PROVISIONAL)


def threshold_line(detector: Detector) -> str:
    """Return what a detector's repr says about its threshold: `threshold 0.888, keeps 95 % ...`."""
    calibration = getattr(detector, "calibration_", None)
    if calibration is None:
        if hasattr(detector, "_training_sample"):  # nobody has asked for the number yet
            return "threshold from training rows"
        offset = getattr(detector, "training_offset_", None)
        if offset is None:
            return "no threshold"
        return f"threshold {offset:.4g} from training rows"
    keeps = f"keeps {100 * calibration.tpr:g} % (n={calibration.n})"
    if calibration.by_class:
        return f"thresholds by class, {keeps}"
    return f"threshold {detector.offset_:.4g}, {keeps}"


def array_text(value: Any) -> str | None:
    """Return how a detector's repr shows an array among its parameters; None for anything else.

    >>> import numpy as np
    >>> array_text(np.zeros((150, 384))), array_text("cosine")
    ('array of 150 x 384', None)
    """
    shape = getattr(value, "shape", None)
    return None if not shape else f"array of {' x '.join(map(str, shape))}"


def _repr_name(detector: Detector) -> str:
    """Return how a detector's repr begins: its class, and what parameters are not the defaults."""
    changed = _changed(detector).items()
    texts = [f"{name}={array_text(value) or repr(value)}" for name, value in changed]
    shown = [text for text in texts if len(text) <= LONG]
    name = type(detector).__name__
    return f"{name}({', '.join(shown)})" if shown else name


def _changed(detector: Detector) -> dict[str, Any]:
    defaults = inspect.signature(type(detector).__init__).parameters
    params = detector.get_params(deep=False)
    params.pop("head", None)
    return {name: value for name, value in params.items() if value is not defaults[name].default}


def _counted(n: int, one: str, more: str) -> str:
    return f"{n} {one if n == 1 else more}"
