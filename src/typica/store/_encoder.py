"""Objects as nodes of a document and tensors; `typica.store` says what nodes there are."""

from __future__ import annotations

from typing import Any

import numpy as np

from typica.arrays import AnyArray
from typica.as_json import json_number
from typica.errors import InputError, a_kind
from typica.store._fitted_state import state_to_store
from typica.store._registered import kind_stored
from typica.store._sklearn import MODULES as SKLEARN

Tensors = dict[str, AnyArray]


class Encoder:
    """Turns objects into nodes, and gathers their arrays as tensors, named by their paths."""

    def __init__(self) -> None:
        self.tensors: Tensors = {}

    def node(self, value: Any, path: str = "") -> Any:  # noqa: PLR0911 (one case per line)
        """Return the node of a value that lies at `path`."""
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return _float_node(value)
        if isinstance(value, np.ndarray):
            return self._array(value, path)
        if isinstance(value, tuple):
            return {"$tuple": self.node(list(value), path)}
        if isinstance(value, list):
            return [self.node(item, _inside(path, i)) for i, item in enumerate(value)]
        if isinstance(value, dict):
            return {key: self.node(item, _inside(path, key)) for key, item in value.items()}
        return self._object(value, path)

    def _array(self, array: AnyArray, path: str) -> dict[str, Any]:
        if array.dtype.kind in "UO" and all(isinstance(item, str) for item in array.flat):
            return {"$strings": array.tolist()}
        name = path or "array"
        # safetensors writes non-contiguous arrays wrongly, and knows little-endian only.
        self.tensors[name] = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        return {"$array": name}

    def _object(self, value: Any, path: str) -> dict[str, Any]:
        kind = kind_stored(value)
        if kind is not None:
            return {f"${kind}": self.node(value.state(), path)}
        name, module = type(value).__name__, type(value).__module__
        if (name, module) == ("Pipeline", "sklearn.pipeline"):
            steps = value.steps
            return {
                "$pipeline": [[step, self.node(part, _inside(path, step))] for step, part in steps]
            }
        if SKLEARN.get(name) and module.startswith(f"{SKLEARN[name]}."):
            parts = {"params": value.get_params(deep=False), "state": state_to_store(value)}
            return {"$sklearn": name, **self.node(parts, path)}
        raise InputError(f"{a_kind(value)} cannot be stored without pickle; {_what_can_be(value)}.")


def _what_can_be(value: object) -> str:
    """Say what to store in place of an object that cannot be stored."""
    if hasattr(value, "detector_"):
        return "save its detector_, and the classifier as you save classifiers"
    known = ", ".join(key for key, home in SKLEARN.items() if home)
    return f"use Typica's own classes, or of scikit-learn: {known}"


def _inside(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)


def _float_node(value: float) -> Any:
    plain = json_number(value)
    return plain if isinstance(plain, float) else {"$float": plain}
