"""Parameters of the methods over a network, for their classes, for suites and for the docs.

They stand apart from their classes, which need torch.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica.arrays import to_numpy
from typica.checks import (
    Parameter,
    choice,
    count,
    is_number,
    is_whole,
    number,
    percentile,
    positive,
)

ODIN_T, ODIN_EPSILON = 1000.0, 0.0014  # what ODIN's authors have
VARIANTS = ("a", "l")  # of AdaSCALE: it scales features, or logits


def step_size() -> Parameter:
    """Declare a parameter that is the size of a step: a finite number of at least 0.

    >>> step_size().check("epsilon", -1)
    Traceback (most recent call last):
    typica.errors.InputError: epsilon=-1 is not a step; pass a number of at least 0.
    """
    complaint = "{name}={value!r} is not a step; pass a number of at least 0."
    return number(lambda value: 0 <= value < np.inf, "a number of at least 0", complaint)


def divisor() -> Parameter:
    """Declare a parameter that divides a step: a positive number, or one per channel.

    >>> divisor().accepts(0.5), divisor().accepts([0.2, 0.3, 0.2]), divisor().accepts([0.2, 0])
    (True, True, False)
    """
    return Parameter(
        _divides,
        "a positive number, or one per channel",
        "{name}={value!r}; pass one positive number, or one per channel.",
    )


def is_per_channel(value: object) -> bool:
    """Tell whether a parameter of an image method is one number, or one per channel.

    >>> is_per_channel(0.5), is_per_channel([0.2, 0.3, 0.2]), is_per_channel([0.2, 0.3])
    (True, True, False)
    """
    if isinstance(value, list):
        return len(value) in (1, 3) and all(map(is_number, value))
    return is_number(value)


def divisors(value: Any) -> NDArray[np.float64]:
    """Return what divides a step as numbers: one, or one per channel; TypeError for no numbers.

    >>> divisors([0.2, 0.3, 0.2])
    array([0.2, 0.3, 0.2])
    """
    listed = isinstance(value, list | tuple)
    numbers = np.asarray([to_numpy(entry) for entry in value] if listed else to_numpy(value))
    if numbers.dtype.kind not in "fiub":
        raise TypeError(numbers.dtype)
    return numbers.astype(np.float64)


def _divides(value: Any) -> bool:
    try:
        numbers = divisors(value)
    except (TypeError, ValueError):
        return False
    few = numbers.ndim < 2 and numbers.size > 0
    return few and bool(((numbers > 0) & np.isfinite(numbers)).all())


def _are_powers(value: Any) -> bool:
    several = isinstance(value, Collection) and len(value) > 0
    return several and all(is_whole(power) and power >= 1 for power in value)


def _are_steepnesses(value: Any) -> bool:
    if value is None:
        return True
    several = value if is_list(value) else [value]
    return all(is_number(alpha) and alpha > 0 for alpha in several)


def is_list(value: Any) -> bool:
    """Tell whether a parameter of an image method lists several values, in an array too.

    >>> is_list([0.5]), is_list(np.array([0.5])), is_list(np.array(0.5)), is_list(0.5)
    (True, True, False, False)
    """
    return isinstance(value, Sequence) or getattr(value, "ndim", 0) > 0


_SHARE = number(
    lambda value: 0 < value <= 100,
    "a percentage above 0",
    "{name}={value!r} is not a percentage; pass one above 0, up to 100.",
)

PERTURB = {"epsilon": step_size(), "std": divisor()}
ODIN = {"T": positive(), **PERTURB}
ADASCALE = {
    "variant": choice(*VARIANTS),
    "low": percentile(),
    "high": percentile(),
    "k1": _SHARE,
    "k2": _SHARE,
}
GRAM = {
    "powers": Parameter(
        _are_powers,
        "integers of at least 1",
        "{name}={value!r}; pass whole numbers of at least 1, in a list.",
    )
}
LAYER_NAC = {
    "alpha": Parameter(
        _are_steepnesses,
        "a positive number, one for each layer, or None",
        "{name}={value!r}; pass a positive number, or one for each layer.",
    ),
    "bins": count(2),
    "enough": count(),
}
