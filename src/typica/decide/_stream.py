"""Scores from a stream of JSON lines, in batches, for `Monitor.update`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica.errors import InputError, about, border


@border
def read_batches(
    lines: Iterable[str], size: int = 1000
) -> Iterator[tuple[NDArray[np.float64], list[Any] | None]]:
    """Yield (scores, predicted classes or None) from lines that hold a number, or an object with "score".

    The class is read from "class" or "nearest", as `typica score -o scores.jsonl` writes it; all
    lines of a batch must have one, or none. Empty lines are skipped.

    >>> list(read_batches(["0.5", '{"score": 0.75}']))
    [(array([0.5 , 0.75]), None)]
    >>> list(read_batches(['{"score": 0.25, "class": "cat"}']))
    [(array([0.25]), ['cat'])]
    """
    scores: list[float] = []
    classes: list[Any] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        with about(f"line {number}"):
            score, name = _parse(line)
        if classes and (name is None) != (classes[0] is None):
            raise InputError(
                f"line {number} and the lines before it differ in having a class; give all one."
            )
        scores.append(score)
        classes.append(name)
        if len(scores) == size:
            yield np.array(scores), None if name is None else classes
            scores, classes = [], []
    if scores:
        yield np.array(scores), None if classes[0] is None else classes


def _parse(line: str) -> tuple[float, Any]:
    try:
        record = json.loads(line)
        if not isinstance(record, dict):
            record = {"score": record}
        score = float(record["score"])
    except (ValueError, TypeError, KeyError):
        text = line.strip()[:60]
        raise InputError(
            f'{text!r} holds no score; write a number or {{"score": number}}.'
        ) from None
    if np.isnan(score):
        raise InputError("the score is NaN; repair the input or the detector.")
    return score, record.get("class", record.get("nearest"))
