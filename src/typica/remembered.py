"""What is remembered of parameters, to see later whether they have changed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from typica.arrays import to_numpy


@dataclass(frozen=True, eq=False)
class HeldArray:
    """What is remembered of a parameter that is an array; equal if the content is."""

    value: Any

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HeldArray):
            return False
        return self.value is other.value or np.array_equal(
            to_numpy(self.value), to_numpy(other.value)
        )

    def __hash__(self) -> int:
        return hash(to_numpy(self.value).shape)


def held(value: Any) -> Any:
    """Return what is remembered of a parameter, or of a dict of them, to compare by `==`.

    >>> held({"k": 3, "missing": float("nan")}) == held({"k": 3, "missing": float("nan")})
    True
    """
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, dict):
        return {name: held(part) for name, part in value.items()}
    if isinstance(value, list | tuple) and any(hasattr(part, "__array__") for part in value):
        return [held(part) for part in value]
    return HeldArray(value) if hasattr(value, "__array__") else value


class RememberedStep(NamedTuple):
    """A step of a Pipeline, and the parameters that it had."""

    step: Any
    parameters: dict[str, Any]

    @classmethod
    def of(cls, step: Any) -> Self:
        """Remember the parameters that a step has now."""
        return cls(step, held(step.get_params(deep=False)))

    def has_changed(self) -> bool:
        """Tell whether the step has other parameters now."""
        today = {name: held(getattr(self.step, name, None)) for name in self.parameters}
        return today != self.parameters
