"""The rectifiers by name."""

from __future__ import annotations

from typing import Any

from typica.errors import border
from typica.rectify.base import Rectifier
from typica.registry import Registry

_REGISTRY: Registry[Rectifier] = Registry("typica.rectify", "rectifier")


def list_rectifiers() -> list[str]:
    """Return the names of all rectifiers, as `make_rectifier` takes them.

    >>> "react" in list_rectifiers()
    True
    """
    return _REGISTRY.names()


@border
def rectifier_class(name: str) -> type[Rectifier]:
    """Return the class of a rectifier by its name, in any case and with - for _.

    >>> rectifier_class("ReAct").__name__
    'ReAct'
    """
    return _REGISTRY.find(name)


@border
def make_rectifier(name: str, **params: Any) -> Rectifier:
    """Make an unfitted rectifier by its name.

    >>> make_rectifier("react", percentile=95)
    ReAct(percentile=95)
    """
    return _REGISTRY.make(name, **params)
