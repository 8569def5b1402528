"""Networks: features from any layer, known architectures, steps on the input, a guarded model.

    from typica.nets import FeatureExtractor, Guard, ODIN, Perturb, zoo

Needs the extra `torch`, which is loaded with the first name that needs it; `import typica.nets` alone loads nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typica.nets import zoo
    from typica.nets.extractor import Extraction, FeatureExtractor
    from typica.nets.guard import Guard, Guarded
    from typica.nets.perturb import ODIN, Perturb

_HOME = {
    "Extraction": "extractor",
    "FeatureExtractor": "extractor",
    "Guard": "guard",
    "Guarded": "guard",
    "ODIN": "perturb",
    "Perturb": "perturb",
}

__all__ = ["ODIN", "Extraction", "FeatureExtractor", "Guard", "Guarded", "Perturb", "zoo"]


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
