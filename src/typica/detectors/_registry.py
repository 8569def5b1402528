"""The detectors by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typica.detectors._describe_method import describe_class
from typica.detectors.base import Detector
from typica.errors import border
from typica.registry import Registry

_REGISTRY: Registry[Detector] = Registry("typica.detectors", "detector")


def list_detectors() -> list[str]:
    """Return the names of all detectors, as `make_detector` takes them.

    >>> "ctm" in list_detectors()
    True
    """
    return _REGISTRY.names()


@border
def detector_class(name: str) -> type[Detector]:
    """Return the class of a detector by its name, in any case and with - for _.

    >>> detector_class("CTM").__name__
    'CTM'
    """
    return _REGISTRY.find(name)


@border
def make_detector(name: str, **params: Any) -> Detector:
    """Make an unfitted detector by its name.

    >>> make_detector("ctm", correct_only=False)
    CTM()
    """
    return _REGISTRY.make(name, **params)


def wants_head(detector: Detector) -> bool:
    """Tell whether a detector, with the parameters that it has, needs a head to read features.

    >>> wants_head(make_detector("ctm")), wants_head(make_detector("ctm", correct_only=True))
    (False, True)
    """
    return detector._wants_head()


def takes_head(detector: Detector) -> bool:
    """Tell whether a detector makes use of a head, where there is one, to read features.

    >>> takes_head(make_detector("ctm")), takes_head(make_detector("quorum"))
    (False, True)
    """
    return detector.tags.uses_head or wants_head(detector)


@border
def parse_params(name: str, texts: Mapping[str, str]) -> dict[str, Any]:
    """Return what texts from the shell say of a detector's parameters, by their declarations.

    >>> parse_params("knn", {"k": "20", "subsample": "None"})
    {'k': 20, 'subsample': None}
    """
    declared = detector_class(name).params
    parsed: dict[str, Any] = {}
    for key, text in texts.items():
        parsed[key] = declared[key].parse(text) if key in declared else text
    return parsed


@border
def describe_detector(name: str) -> dict[str, Any]:
    """Return what a detector needs, can do and costs, as JSON values.

    >>> describe_detector("cw")["needs"]
    ['head']
    """
    return describe_class(detector_class(name))
