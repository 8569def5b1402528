"""The rectifiers, one method per file, which change features before a detector sees them.

They are scikit-learn transformers, composed by scikit-learn's own Pipeline,
`make_pipeline(ReAct(percentile=90), Energy(head))`, which `typica.calibrate`, `explain` and `save`
take like a detector. A file added here is a rectifier added everywhere.
"""

from __future__ import annotations

from typing import Any

from typica.rectify.base import Rectifier
from typica.registry import Registry

__all__ = ["Rectifier", "list_rectifiers", "make_rectifier", "rectifier_class"]

_REGISTRY: Registry[Rectifier] = Registry(__name__, "rectifier")


def list_rectifiers() -> list[str]:
    """Return the names of all rectifiers, as `make_rectifier` takes them.

    >>> "react" in list_rectifiers()
    True
    """
    return _REGISTRY.names()


def rectifier_class(name: str) -> type[Rectifier]:
    """Return the class of a rectifier by its name, in any case and with - for _.

    >>> rectifier_class("ReAct").__name__
    'ReAct'
    """
    return _REGISTRY.find(name)


def make_rectifier(name: str, **params: Any) -> Rectifier:
    """Make an unfitted rectifier by its name.

    >>> make_rectifier("react", percentile=95)
    ReAct(percentile=95)
    """
    return _REGISTRY.make(name, **params)
