"""Know when a trained classifier is looking at something it does not know."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from typica.detectors import Detector, Tags, detector_class, list_detectors, make_detector
    from typica.detectors.ctm import CTM
    from typica.detectors.cw import CW
    from typica.detectors.msp import MSP
    from typica.errors import CalibrationWarning, FormatError, InputError
    from typica.explanation import Explanation
    from typica.head import Head
    from typica.metrics import Evaluation, Result, evaluate
    from typica.moments import Moments
    from typica.pipelines import calibrate, explain
    from typica.scoring import ood_scorer
    from typica.store import load, save

# Loaded when first asked for, so that `import typica` costs next to nothing.
_HOMES = {
    "detectors": ("Detector", "Tags", "detector_class", "list_detectors", "make_detector"),
    "detectors.ctm": ("CTM",),
    "detectors.cw": ("CW",),
    "detectors.msp": ("MSP",),
    "errors": ("CalibrationWarning", "FormatError", "InputError"),
    "explanation": ("Explanation",),
    "head": ("Head",),
    "metrics": ("Evaluation", "Result", "evaluate"),
    "moments": ("Moments",),
    "pipelines": ("calibrate", "explain"),
    "scoring": ("ood_scorer",),
    "store": ("load", "save"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "CTM",
    "CW",
    "MSP",
    "CalibrationWarning",
    "Detector",
    "Evaluation",
    "Explanation",
    "FormatError",
    "Head",
    "InputError",
    "Moments",
    "Result",
    "Tags",
    "calibrate",
    "detector_class",
    "evaluate",
    "explain",
    "list_detectors",
    "load",
    "make_detector",
    "ood_scorer",
    "save",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'typica' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"typica.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
