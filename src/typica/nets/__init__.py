"""Networks: features from any layer, known architectures, files and backends, steps on the input, a guarded model.

    from typica.nets import FeatureExtractor, Guard, ODIN, Perturb, make_runner, open_model, zoo

Needs the extra `torch` (for ONNX files: `onnx` alone), which is loaded with the first name that
needs it; `import typica.nets` alone loads nothing."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typica.nets import zoo
    from typica.nets.backends import Runner, make_runner
    from typica.nets.extractor import Extraction, FeatureExtractor
    from typica.nets.graphs import GraphExtractor
    from typica.nets.guard import Guard, Guarded
    from typica.nets.models import Opened, open_model
    from typica.nets.onnx import OnnxExtractor
    from typica.nets.perturb import ODIN, Perturb

_HOME = {
    "Extraction": "extractor",
    "FeatureExtractor": "extractor",
    "GraphExtractor": "graphs",
    "Guard": "guard",
    "Guarded": "guard",
    "ODIN": "perturb",
    "OnnxExtractor": "onnx",
    "Opened": "models",
    "Perturb": "perturb",
    "Runner": "backends",
    "make_runner": "backends",
    "open_model": "models",
}

__all__ = [
    "ODIN",
    "Extraction",
    "FeatureExtractor",
    "GraphExtractor",
    "Guard",
    "Guarded",
    "OnnxExtractor",
    "Opened",
    "Perturb",
    "Runner",
    "make_runner",
    "open_model",
    "zoo",
]


def __getattr__(name: str) -> Any:
    if name == "zoo":
        return importlib.import_module("typica.nets.zoo")
    if name not in _HOME:
        raise AttributeError(f"module 'typica.nets' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"typica.nets.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
