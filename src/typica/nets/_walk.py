"""The head of a network that is a graph of operations: found by walking back from what the graph gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

Found = TypeVar("Found")


class Walk(NamedTuple):
    """How to go through a graph: who made a value (by name, in order), what a node reads, what it may be passed by."""

    producers: Mapping[str, Any]
    inputs: Callable[[Any], Iterable[str]]
    passes: Callable[[Any], bool]


def find_back(
    walk: Walk, outputs: Iterable[tuple[str, str]], found: Callable[[Any], Found | None]
) -> Found | None:
    """Return what `found` makes of the linear layer that an output comes from, through softmax, reshaping and the like.

    outputs: their names and values. Of several, the one called "logits" counts, else the last layer
    to run.
    """
    order = {name: i for i, name in enumerate(walk.producers)}
    best: tuple[bool, int, Found] | None = None
    for name, start in outputs:
        waiting, seen = [start], set()
        while waiting:
            value = waiting.pop(0)
            node = walk.producers.get(value)
            if node is None or value in seen:
                continue
            seen.add(value)
            result = found(node)
            if result is not None:
                rank = (name == "logits", order[value])
                best = (*rank, result) if best is None or rank > best[:2] else best
                break
            if walk.passes(node):
                waiting.extend(walk.inputs(node))
    return None if best is None else best[2]
