"""JSON: values in a form that it can hold, their canonical text and its digest, files of it."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


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
    """Return the canonical JSON text of a value; what JSON lacks, such as NaN, is an error.

    >>> json_text({"b": 1, "a": [0.5]})
    '{"a":[0.5],"b":1}'
    """
    return json.dumps(value, sort_keys=True, allow_nan=False, separators=(",", ":"))


def digest_of(value: Any) -> str:
    """Return the SHA-256 of the JSON of plain data, whatever the order of its keys.

    >>> digest_of({"b": 1, "a": 2}) == digest_of({"a": 2, "b": 1})
    True
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def finite_number(value: Any) -> float | None:
    """Return a finite JSON number as a float, and None for anything else.

    >>> finite_number(1), finite_number("inf"), finite_number(None), finite_number(10**400)
    (1.0, None, None, None)
    """
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        found = float(value)
    except OverflowError:  # an integer beyond all floats
        return None
    return found if math.isfinite(found) else None


def read_json_file(path: str | os.PathLike[str]) -> Any:
    """Read a JSON file; lone surrogates, which UTF-8 cannot encode, are refused."""
    document = json.loads(Path(path).read_text(encoding="utf-8"))
    json.dumps(document, ensure_ascii=False).encode()
    return document
