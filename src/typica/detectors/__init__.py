"""The detectors, one method a file. A file added here is a detector added everywhere."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from typica.detectors.base import Detector, Tags
from typica.errors import InputError

__all__ = ["Detector", "Tags", "detector_class", "list_detectors", "make_detector"]


def list_detectors() -> list[str]:
    """Return the names of all detectors, as `make_detector` takes them.

    >>> "ctm" in list_detectors()
    True
    """
    names = (module.name for module in pkgutil.iter_modules(__path__))
    return sorted(name for name in names if not name.startswith("_") and name != "base")


def detector_class(name: str) -> type[Detector]:
    """Return the class of a detector by its name, in any case and with - for _.

    >>> detector_class("CTM").__name__
    'CTM'
    """
    wanted = name.lower().replace("-", "_")
    if wanted not in list_detectors():
        raise InputError(f"detector {name!r} is unknown; choose one of {', '.join(list_detectors())}.")
    module = importlib.import_module(f"{__name__}.{wanted}")
    found: type[Detector] = next(
        item for item in vars(module).values() if getattr(item, "kind", None) == wanted and isinstance(item, type)
    )
    return found


def make_detector(name: str, **params: Any) -> Detector:
    """Make an unfitted detector by its name.

    >>> make_detector("ctm", correct_only=False)
    CTM()
    """
    cls = detector_class(name)
    known = sorted(cls().get_params(deep=False))
    unknown = sorted(set(params) - set(known))
    if unknown:
        raise InputError(f"detector {name!r} has no parameter {unknown[0]!r}; it takes {', '.join(known) or 'none'}.")
    return cls(**params)
