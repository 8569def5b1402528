"""Parameters of the methods over a network, for their classes, for suites and for the docs.

They stand apart from their classes, which need torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typica.checks import (
    Parameter,
    choice,
    count,
    divisor,
    is_number,
    is_whole,
    number,
    percentile,
    positive,
    step_size,
)

ODIN_T, ODIN_EPSILON = 1000.0, 0.0014  # what ODIN's authors have
VARIANTS = ("a", "l")  # of AdaSCALE: it scales features, or logits


def _are_powers(value: Any) -> bool:
    listed = isinstance(value, Sequence) and len(value) > 0
    return listed and all(is_whole(power) and power >= 1 for power in value)


def _are_steepnesses(value: Any) -> bool:
    several = value if isinstance(value, Sequence) else [value]
    return value is None or all(is_number(alpha) and alpha > 0 for alpha in several)


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
        "{name}={value!r}; pass whole numbers of at least 1.",
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
# By their page in the documentation.
BY_PAGE = {
    "perturb": ODIN,
    "adascale": ADASCALE,
    "gram": GRAM,
    "layer_nac": LAYER_NAC,
    "layer_perturb": PERTURB,
}
