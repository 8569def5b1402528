"""Nodes of a document and tensors as objects again."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica.bombs import allowance
from typica.errors import FormatError
from typica.store._encoder import Tensors
from typica.store._registered import reader_of
from typica.store._sklearn import transformer


class Decoder:
    """Turns nodes back into objects. size: bytes of the file, which strings may not outgrow."""

    def __init__(self, tensors: Tensors, size: int) -> None:
        self.tensors = tensors
        self._allowed = allowance(size)

    def value(self, node: Any) -> Any:
        """Return what a node stands for."""
        if isinstance(node, list):
            return [self.value(item) for item in node]
        if not isinstance(node, dict):
            return node
        tag = next((key for key in node if key.startswith("$")), None)
        if tag is None:
            return {key: self.value(item) for key, item in node.items()}
        return self._tagged(tag, node)

    def _tagged(self, tag: str, node: dict[str, Any]) -> Any:  # noqa: PLR0911 (one case per line)
        body = node[tag]
        match tag:
            case "$array":
                return self.tensors[body]
            case "$strings":
                return self._strings(body)
            case "$float":
                return float(body)
            case "$tuple":
                return tuple(self.value(body))
            case "$pipeline":
                return self._pipeline(body)
            case "$sklearn":
                params, state = (self.value(node[key]) for key in ("params", "state"))
                return transformer(body, params, state)
        return reader_of(tag[1:])(self.value(body))

    def _strings(self, texts: list[Any]) -> NDArray[np.str_]:
        """Return an array of strings, each of which takes as much room as the longest."""
        flat = np.array(texts, dtype=object).ravel()
        longest = max((len(text) for text in flat), default=0)
        if 4 * longest * len(flat) > self._allowed:
            raise FormatError(
                f"{len(flat):,} strings of up to {longest:,} characters, maybe a bomb"
            )
        return np.array(texts, dtype=np.str_)

    def _pipeline(self, steps: list[Any]) -> Any:
        pipeline = importlib.import_module("sklearn.pipeline").Pipeline
        return pipeline([(name, self.value(part)) for name, part in steps])
