"""Networks: features from any layer, known architectures, files and backends, steps on the input, a guarded model.

    from typica.nets import FeatureExtractor, Guard, ODIN, Perturb, make_runner, open_model, zoo

Needs the extra `torch` (for ONNX files: `onnx` alone), which is loaded with the first name that
needs it; `import typica.nets` alone loads nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typica.nets import zoo
    from typica.nets._guard import Guard, Guarded
    from typica.nets._models import Opened, open_model
    from typica.nets._perturb import ODIN, Perturb
    from typica.nets.engines import Runner, make_runner
    from typica.nets.extractors.onnx import OnnxExtractor
    from typica.nets.extractors.program import GraphExtractor
    from typica.nets.extractors.torch import Extraction, FeatureExtractor

_HOME = {
    "Extraction": "extractors.torch",
    "FeatureExtractor": "extractors.torch",
    "GraphExtractor": "extractors.program",
    "Guard": "_guard",
    "Guarded": "_guard",
    "ODIN": "_perturb",
    "OnnxExtractor": "extractors.onnx",
    "Opened": "_models",
    "Perturb": "_perturb",
    "Runner": "engines",
    "make_runner": "engines",
    "open_model": "_models",
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
