"""What every extractor gives, whatever runs the network; needs NumPy alone."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from typica.errors import InputError

PENULTIMATE = "penultimate"  # what the head's input is called among layers


class Extraction(NamedTuple):
    """What a batch gives: features (n, m), logits (n, C) or None, and the features of each layer by its name."""

    features: Any
    logits: Any
    layers: dict[str, Any]


def wanted_layers(layer: str | None, layers: Sequence[str] | None, where: str) -> list[str]:
    """Return the names of the layers to give, the last of which gives the features."""
    if layers is not None and (layer is not None or isinstance(layers, str) or not layers):
        raise InputError(
            f"{where}: layer={layer!r}, layers={layers!r}; pass one name, or layers=[...] of several."
        )
    return [PENULTIMATE if layer is None else layer] if layers is None else list(layers)


def closest(name: str, names: Sequence[str]) -> str:
    """Return the names most like `name`, for a message."""
    return some(difflib.get_close_matches(name, names, n=5, cutoff=0.3) or names[-5:])


def some(names: Sequence[str]) -> str:
    """Return the first few of the names, quoted, and how many more there are."""
    return ", ".join(repr(name) for name in names[:8]) + (
        f" and {len(names) - 8} more" if len(names) > 8 else ""
    )


def each_array(extraction: Extraction, function: Callable[[Any], Any]) -> Extraction:
    """Return the extraction with `function` applied to its arrays; the last layer's is the features'."""
    layers = {name: function(rows) for name, rows in extraction.layers.items()}
    logits = None if extraction.logits is None else function(extraction.logits)
    return Extraction(layers[list(layers)[-1]], logits, layers)


def joined(parts: Sequence[Extraction], concatenate: Callable[[list[Any]], Any]) -> Extraction:
    """Return the rows of several extractions as one."""
    if len(parts) == 1:
        return parts[0]
    layers = {name: concatenate([part.layers[name] for part in parts]) for name in parts[0].layers}
    logits = None if parts[0].logits is None else concatenate([part.logits for part in parts])
    return Extraction(layers[list(layers)[-1]], logits, layers)


def in_pieces(
    images: Any,
    sizes: tuple[int, int | None],
    run: Callable[[Any], Extraction],
    concatenate: Callable[[list[Any]], Any],
) -> Extraction:
    """Run a batch on a program that takes `sizes` (fewest, most) rows at once: cut what is longer, pad what is shorter.

    Padding repeats the last row, and is cut off what comes out.
    """
    fewest, most = sizes
    step = most or max(len(images), 1)
    parts = []
    for start in range(0, max(len(images), 1), step):
        piece = images[start : start + step]
        n = len(piece)
        if 0 < n < fewest:
            piece = concatenate([piece] + [piece[-1:]] * (fewest - n))
        part = run(piece)
        parts.append(each_array(part, lambda rows, n=n: rows[:n]) if n < fewest else part)  # type: ignore[misc]
    return joined(parts, concatenate)
