"""Verdicts as tensors of the Open Inference Protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from typica.errors import InputError
from typica.serve._served import Served
from typica.verdicts import Verdicts

NUMBERS, YES_NO, TEXT = "FP64", "BOOL", "BYTES"
DATATYPES = {
    "score": NUMBERS,
    "typical": YES_NO,
    "threshold": NUMBERS,
    "p_value": NUMBERS,
    "nearest": TEXT,
    "similarity": NUMBERS,
    "runner_up": TEXT,
    "runner_up_similarity": NUMBERS,
    "why": TEXT,
}
ON_REQUEST = ("why",)  # whose sentences cost more than the rest


class Column(NamedTuple):
    """One output: its name, datatype and values, one per input."""

    name: str
    datatype: str
    values: list[Any]


def check_outputs(wanted: Sequence[str] | None) -> None:
    """Refuse outputs that a request asks for but no detector has."""
    unknown = [name for name in wanted or () if name not in DATATYPES]
    if unknown:
        named = unknown[0][:80]
        raise InputError(f"output {named!r} is unknown; choose among {', '.join(DATATYPES)}.")


def answer(verdicts: Verdicts, wanted: Sequence[str] | None) -> list[Column]:
    """Return the outputs that a request wants; all but "why" if none is named."""
    names = wanted
    if names is None:
        names = [name for name in DATATYPES if name not in ON_REQUEST]
    found = verdicts.to_dict(tuple(names))
    missing = [name for name in names if name not in found]
    if missing and wanted is not None:
        raise InputError(f"the detector has no {missing[0]!r}; leave it out.")
    return [
        Column(name, DATATYPES[name], _filled(values, DATATYPES[name]))
        for name, values in found.items()
    ]


def joined_batches(parts: Sequence[Verdicts]) -> Verdicts:
    """Return the verdicts on the batches of one request as one."""
    known: dict[str, Any] = {}
    for field in fields(Verdicts):
        columns = [getattr(part, field.name) for part in parts]
        if isinstance(columns[0], np.ndarray):
            known[field.name] = np.concatenate(columns)
    return Verdicts(**known)


def _filled(values: list[Any], datatype: str) -> list[Any]:
    """Return an output's values, texts as bytes; a missing one is an empty text, or NaN."""
    if datatype == TEXT:
        return [b"" if value is None else str(value).encode() for value in values]
    if datatype == NUMBERS:
        return [float("nan") if value is None else float(value) for value in values]
    return values


def known_outputs(served: Served) -> list[str]:
    """Return the outputs that a detector has, found by judging one row of zeros."""
    verdicts = served.judge(np.zeros((1, served.width or 1), dtype=np.float32))
    return list(verdicts.columns(tuple(DATATYPES)))
