"""Numbers and JSON values as they are written: exact fractions, infinities in JSON, percentages."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any


def exact(number: Any) -> Fraction:
    """Return the decimal that a number prints as, so that 0.9 of 10 is exactly 9.

    What is not a number gives -1.

    >>> exact(0.9) * 10 == 9, Fraction(0.9) * 10 == 9
    (True, False)
    """
    try:
        return Fraction(str(number))
    except (ValueError, ZeroDivisionError):
        return Fraction(-1)


def meant_decimal(share: Fraction) -> Fraction:
    """Return the decimal of at most 15 places that was meant by a float, if there is one."""
    short = exact(round(float(share), 15))
    is_meant = short and abs(short - share) < Fraction(1, 2**53)
    return short if is_meant else share


def json_number(value: float) -> float | str:
    """Return a float as JSON can hold it: infinities and NaN as the strings that float() reads.

    >>> json_number(0.5), json_number(-math.inf)
    (0.5, '-inf')
    """
    return value if math.isfinite(value) else str(value)


def json_values(value: Any) -> Any:
    """Return lists, dicts and what they hold as JSON can hold them; see `json_number`.

    >>> json_values({"score": [0.5, -math.inf]})
    {'score': [0.5, '-inf']}
    """
    if isinstance(value, float):
        return json_number(value)
    if isinstance(value, Mapping):
        return {key: json_values(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_values(item) for item in value]
    return value


def json_text(value: Any) -> str:
    """Return the one JSON text of a value; what JSON does not have, NaN included, is an error.

    >>> json_text({"b": 1, "a": [0.5]})
    '{"a":[0.5],"b":1}'
    """
    return json.dumps(value, sort_keys=True, allow_nan=False, separators=(",", ":"))


def finite_number(value: Any) -> float | None:
    """Return a finite JSON number as a float, and None for anything else.

    >>> finite_number(1), finite_number("inf"), finite_number(None)
    (1.0, None, None)
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    return None


def percent(share: float) -> str:
    """Return a share as a percentage with two decimals.

    >>> percent(0.98765)
    '98.77'
    """
    return f"{100 * share:.2f}"
