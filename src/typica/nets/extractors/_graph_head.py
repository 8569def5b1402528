"""The head of a network that is a graph of operations, found by walking back from its outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

Found = TypeVar("Found")


class Walk(NamedTuple, Generic[Found]):
    """How to go through a graph.

    producers: the node that made a value, by its name, in order. inputs: what a node reads. passes:
    whether the logits before a node are still clear after it. found: what is wanted of a node that
    is a linear layer, None for another.
    """

    producers: Mapping[str, Any]
    inputs: Callable[[Any], Iterable[str]]
    passes: Callable[[Any], bool]
    found: Callable[[Any], Found | None]

    def head(self, outputs: Iterable[tuple[str, str]]) -> Found | None:
        """Return the linear layer that an output comes from, through softmax and the like.

        outputs: their names and values. Of several, the one called "logits" counts, else the last
        layer to run.
        """
        order = {name: i for i, name in enumerate(self.producers)}
        best: tuple[bool, int] | None = None
        head = None
        for name, start in outputs:
            value, result = self._back(start)
            if result is None:
                continue
            rank = (name == "logits", order[value])
            if best is None or rank > best:
                best, head = rank, result
        return head

    def _back(self, start: str) -> tuple[str, Found | None]:
        """Return the nearest linear layer before a value, and the value that it gives."""
        waiting, seen = [start], set()
        while waiting:
            value = waiting.pop(0)
            node = self.producers.get(value)
            if node is None or value in seen:
                continue
            seen.add(value)
            result = self.found(node)
            if result is not None:
                return value, result
            if self.passes(node):
                waiting.extend(self.inputs(node))
        return start, None
