"""From what a layer gives to one row an input: maps are averaged over space, tokens are averaged or CLS is taken."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from typica.errors import InputError

Reduction = str | Callable[[Any], Any]

REDUCTIONS = ("mean", "max", "cls", "flatten")


def check_reduction(reduce: Any, where: str) -> None:
    """Raise unless `reduce` is a known name or a function."""
    if not callable(reduce) and reduce not in REDUCTIONS:
        raise InputError(
            f"{where}: reduce={reduce!r} is unknown; choose one of {', '.join(REDUCTIONS)}, or pass a function."
        )


def reduced(x: Any, reduce: Reduction, where: str) -> Any:
    """Return one row an input, (n, m), as a tensor of its own: layers after this one may overwrite x in place.

    x, a tensor or a NumPy array: (n, m), returned as it is; tokens (n, t, m); or maps (n, m, h, w),
    (n, m, d, h, w).
    """
    if x.ndim == 2:
        return _own(x)
    if callable(reduce):
        rows = reduce(x)
        if getattr(rows, "ndim", None) != 2 or rows.shape[0] != x.shape[0]:
            shape = getattr(rows, "shape", type(rows).__name__)
            raise InputError(
                f"{where}: reduce turned {tuple(x.shape)} into {shape if isinstance(shape, str) else tuple(shape)}; "
                "return one row an input, (n, m)."
            )
        return rows
    if x.ndim < 2:
        raise InputError(
            f"{where}: an output of shape {tuple(x.shape)} has no features; choose another layer."
        )
    if reduce == "flatten":
        return (
            x.reshape(len(x), math.prod(x.shape[1:]))
            if isinstance(x, np.ndarray)
            else x.flatten(1).clone()
        )
    if reduce == "cls":
        if x.ndim != 3:
            raise InputError(
                f"{where}: an output of shape {tuple(x.shape)} has no tokens (n, t, m), so no CLS; pass reduce='mean'."
            )
        return _own(x[:, 0])
    places = (1,) if x.ndim == 3 else tuple(range(2, x.ndim))
    if reduce == "mean":
        return x.mean(places)
    return x.max(places) if isinstance(x, np.ndarray) else x.amax(places)


def _own(x: Any) -> Any:
    return x if isinstance(x, np.ndarray) else x.clone()
