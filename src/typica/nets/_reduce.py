"""From what a layer gives to one row per input: maps and tokens are averaged, or CLS is taken.

"max" and "mean+std" (or "mean+0.5std", with another factor than 1) of the last map, in place of the
mean that the network itself takes, are the pooling of DAVIS: Hassan, Ngo, Shafiq, Medvidovic:
DAVIS: OOD Detection via Dominant Activations and Variance for Increased Separation, 2026. The
standard deviation is over the places of a map, divided by their number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from typica.arrays import namespace
from typica.errors import InputError, argument

Reduction = str | Callable[[Any], Any]

REDUCTIONS = ("mean", "max", "cls", "flatten", "mean+std")
_SPREAD = re.compile(r"mean\+(\d+(?:\.\d*)?|\.\d+)?std")  # the factor before std, 1 if absent


def check_reduction(reduce: Any) -> None:
    """Raise unless `reduce` is a known name or a function."""
    if not callable(reduce) and not _SPREAD.fullmatch(str(reduce)) and reduce not in REDUCTIONS:
        raise InputError(
            f"reduce={reduce!r} is unknown; choose one of {', '.join(REDUCTIONS)}, "
            "or pass a function."
        )


def reduced(x: Any, reduce: Reduction) -> Any:
    """Return one row per input, (n, m), in memory of its own: later layers may overwrite x.

    x, an array of NumPy, a tensor, or one of an exported graph: (n, m), returned as it is; tokens
    (n, t, m); or maps (n, m, h, w), (n, m, d, h, w).
    """
    if x.ndim == 2:
        return _own(x)
    if callable(reduce):
        return _by_function(x, reduce)
    if x.ndim < 2:
        raise InputError(
            f"an output of shape {tuple(x.shape)} has no features; choose another layer."
        )
    xp = namespace(x)
    match reduce:
        case "flatten":
            return _own(xp.reshape(x, (x.shape[0], math.prod(x.shape[1:]))))
        case "cls":
            return _class_token(x)
        case "mean" | "max":
            return getattr(xp, reduce)(x, axis=_places(x))
    return _mean_and_spread(x, float(_SPREAD.fullmatch(reduce)[1] or 1))  # type: ignore[index]


def reduced_logits(x: Any, reduce: Reduction) -> Any:
    """Return logits (n, C), chosen among tokens as the features are: the head relates them."""
    return reduced(x, "cls" if reduce == "cls" and x.ndim == 3 else "mean")


def _by_function(x: Any, reduce: Callable[[Any], Any]) -> Any:
    rows = reduce(x)
    if getattr(rows, "ndim", None) == 2 and rows.shape[0] == x.shape[0]:
        return rows
    found = tuple(rows.shape) if hasattr(rows, "shape") else type(rows).__name__
    raise InputError(
        f"reduce turned {tuple(x.shape)} into {found}; return one row per input, (n, m)."
    )


def _mean_and_spread(x: Any, factor: float) -> Any:
    """Return the mean over places plus `factor` standard deviations, whose gradient at 0 is 0."""
    xp, places = namespace(x), _places(x)
    mean = xp.mean(x, axis=places)
    shape = (x.shape[0], 1, x.shape[2]) if x.ndim == 3 else (*x.shape[:2], *[1] * (x.ndim - 2))
    apart = x - xp.reshape(mean, shape)
    variance = xp.mean(apart * apart, axis=places)
    constant = variance == 0
    roots = xp.sqrt(xp.where(constant, xp.ones_like(variance), variance))
    return mean + factor * xp.where(constant, xp.zeros_like(variance), roots)


def _class_token(x: Any) -> Any:
    if x.ndim != 3:
        raise InputError(
            f"an output of shape {tuple(x.shape)} has no tokens (n, t, m), so no CLS; "
            f"pass {argument('reduce', 'mean')}."
        )
    return _own(x[:, 0])


def _places(x: Any) -> tuple[int, ...]:
    """Return the axes of tokens or of places in maps."""
    return (1,) if x.ndim == 3 else tuple(range(2, x.ndim))


def _own(x: Any) -> Any:
    return x.clone() if hasattr(x, "clone") else x
