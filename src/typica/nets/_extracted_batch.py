"""What every extractor gives, whatever runs the network; needs NumPy alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray, is_floating
from typica.errors import InputError, border, closest, listed, reason_of
from typica.origin import PENULTIMATE

T = TypeVar("T")


class Extraction(NamedTuple):
    """What a batch gives: features (n, m), logits (n, C) or None, and each layer's by its name."""

    features: Any
    logits: Any
    layers: dict[str, Any]

    def read(self, logits: bool, layers: list[str] | None = None) -> Any:
        """Return the logits or the features, or those of several layers side by side."""
        if layers is not None:
            return np.concatenate([self.layers[name] for name in layers], axis=1)
        if logits and self.logits is None:
            raise InputError("the model gives no logits; pass a detector of features.")
        return self.logits if logits else self.features


def wanted_layers(layer: str | None, layers: Sequence[str] | None) -> list[str]:
    """Return the layers that an extractor is to give, the last of which gives the features."""
    if layers is None:
        return [PENULTIMATE if layer is None else layer]
    if layer is not None or isinstance(layers, str) or not layers:
        raise InputError(
            f"layer={layer!r}, layers={layers!r}; pass one name, or layers=[...] of several."
        )
    if len(set(map(str, layers))) < len(layers):
        raise InputError(f"layers={list(layers)!r} names one twice; name each once.")
    return list(layers)


def returned_logits(outputs: Iterable[tuple[str, T]], is_matrix: Callable[[T], bool]) -> T | None:
    """Return the output called "logits", else the first, of a model without a head, or None.

    is_matrix: tells a matrix of floats from other outputs, which are skipped.

    >>> outputs = [("", np.array([[1, 2]])), ("x", np.array([[0.5]])), ("logits", np.array([[2.]]))]
    >>> returned_logits(outputs, is_float_matrix)
    array([[2.]])
    """
    matrices = [(name, rows) for name, rows in outputs if is_matrix(rows)]
    matrices.sort(key=lambda output: output[0] != "logits")
    return matrices[0][1] if matrices else None


def is_float_matrix(value: Any) -> bool:
    """Tell whether an array or a tensor can be logits (n, C); other values cannot."""
    return getattr(value, "ndim", 0) == 2 and is_floating(value)


def closest_names(name: str, names: Sequence[str]) -> str:
    """Return the names most like `name`, or else the last, which are nearest to the output."""
    named = [known for known in names if known]  # the network itself has none
    return listed(closest(name, named, most=5, cutoff=0.3) or named[-5:], quoted=True)


def batch_of(images: Any, named: dict[str, Any]) -> Any:
    """Return the batch for an extractor: what was given, or the model's keyword arguments."""
    if images is None and not named:
        raise InputError("no batch; pass one, or the model's keyword arguments.")
    if images is not None and named:
        raise InputError(f"a batch and the keywords {', '.join(named)}; pass one or the other.")
    return named or images


def each_array(extraction: Extraction, function: Callable[[Any], Any]) -> Extraction:
    """Return the extraction with `function` applied to its arrays."""
    layers = {name: function(rows) for name, rows in extraction.layers.items()}
    logits = None if extraction.logits is None else function(extraction.logits)
    return Extraction(layers[list(layers)[-1]], logits, layers)


def in_float32(extraction: Extraction) -> Extraction:
    """Return the extraction as float32 arrays of NumPy."""

    def convert(rows: Any) -> NDArray[np.float32]:
        rows = rows.float().cpu().numpy() if hasattr(rows, "cpu") else rows
        return np.asarray(rows, dtype=np.float32)

    return each_array(extraction, convert)


def joined(parts: Sequence[Extraction], concatenate: Callable[[list[Any]], Any]) -> Extraction:
    """Return the rows of several extractions as one."""
    if len(parts) == 1:
        return parts[0]
    layers = {}
    for name in parts[0].layers:
        layers[name] = concatenate([part.layers[name] for part in parts])
    logits = None
    if parts[0].logits is not None:
        logits = concatenate([part.logits for part in parts])
    return Extraction(layers[list(layers)[-1]], logits, layers)


def in_pieces(
    images: Any,
    sizes: tuple[int, int | None],
    run: Callable[[Any], Extraction],
    concatenate: Callable[[list[Any]], Any],
) -> Extraction:
    """Extract a batch in pieces, where a program takes `sizes` (fewest, most) rows at once.

    A longer batch is cut; a shorter one is padded with copies of its last row, whose results are
    dropped.
    """
    fewest, most = sizes
    step = most or max(len(images), 1)
    parts = []
    for start in range(0, max(len(images), 1), step):
        piece = images[start : start + step]
        missing = fewest - len(piece)
        if missing <= 0 or not len(piece):
            parts.append(run(piece))
        else:
            padded = concatenate([piece] + [piece[-1:]] * missing)
            parts.append(first_rows(run(padded), len(piece)))
    return joined(parts, concatenate)


def first_rows(extraction: Extraction, n: int) -> Extraction:
    """Return the first n rows of an extraction."""
    return each_array(extraction, lambda rows: rows[:n])


@border
def run_directly(extractor: Any, images: AnyArray) -> Extraction:
    """Return what an extractor gives for one batch, run without an engine, as float32 arrays."""
    try:
        return in_float32(extractor(images))
    except InputError:
        raise
    except Exception as error:  # networks raise any error for input that they were not made for
        raise InputError(
            f"the network does not take images of {images.shape[1:]} ({reason_of(error)}); "
            "check the transform."
        ) from error
