"""The kinds of things in files, by name, and what rebuilds each."""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Callable
from typing import Any, TypeVar

from typica import plugins
from typica.errors import FormatError
from typica.store._fitted_state import State

C = TypeVar("C", bound=type)

_KINDS: dict[str, type] = {}
# Where a kind that is not registered yet may live, in a module of its name.
_FLOORS = ("detectors", "rectify")
_MODULES = {  # kinds whose module has another name or floor
    "calibrated_scores": "calibration._calibration",
    "head": "head",
    "kept_rows": "detectors._kept_rows",
    "moments": "moments",
    "monitor": "decide",
    "origin": "origin",
    "perceptron": "nets.extractors.dense",
    "score_sample": "calibration._sample",
}


def storable(kind: str) -> Callable[[C], C]:
    """Register a class with `state()` and `from_state(state)` under the name `kind` in files."""

    def register(cls: C) -> C:
        _KINDS[kind] = cls
        cls.kind = kind  # type: ignore[attr-defined]
        return cls

    return register


def kind_stored(value: object) -> str | None:
    """Return the kind that a value's own class is registered under, if it is."""
    kind = getattr(value, "kind", None)
    if isinstance(kind, str) and _KINDS.get(kind) is type(value):
        return kind
    return None


def reader_of(kind: str) -> Callable[[State], Any]:
    """Return what rebuilds a kind, loading the module that registers it."""
    if kind not in _KINDS and kind in _MODULES:
        importlib.import_module(f"typica.{_MODULES[kind]}")
    if kind not in _KINDS and re.fullmatch(r"[a-z][a-z0-9_]*", kind):
        _import_reader(kind)
    if kind not in _KINDS:
        raise FormatError(f"unknown kind {kind!r}")
    rebuild: Callable[[State], Any] = _KINDS[kind].from_state  # type: ignore[attr-defined]
    return rebuild


def _import_reader(kind: str) -> None:
    """Import the module that reads a stored detector or rectifier of a kind, ours or a plugin's."""
    for floor in _FLOORS:
        if importlib.util.find_spec(f"typica.{floor}.{kind}") is not None:
            importlib.import_module(f"typica.{floor}.{kind}")
        elif kind in plugins.installed(f"typica.{floor}"):
            plugins.load(plugins.installed(f"typica.{floor}")[kind])
