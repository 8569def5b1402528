"""Scores from lines of text, as `typica score` writes them or as any program can."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from typica.errors import InputError, about

SIZE = 1024  # scores of a batch


class Batch(NamedTuple):
    """Scores in the order of their arrival, and their classes where the lines have any."""

    scores: NDArray[np.float64]
    classes: list[Any] | None


def read_scores(lines: Iterable[str], size: int = SIZE, name: str = "stdin") -> Iterator[Batch]:
    """Yield batches of at most `size` scores.

    A line is a number or a JSON object with "score" and maybe "class" or "nearest"; all lines of a
    batch must have one, or none. Empty lines are skipped. name: what the lines are called in
    messages.

    >>> list(read_scores(["0.5", '{"score": 0.75}']))
    [Batch(scores=array([0.5 , 0.75]), classes=None)]
    >>> list(read_scores(['{"score": 0.25, "class": "cat"}']))
    [Batch(scores=array([0.25]), classes=['cat'])]
    """
    waiting: list[tuple[float, Any]] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        with about(f"{name}: line {number}"):
            score, label = _parse(line)
        if waiting and (label is None) != (waiting[0][1] is None):
            raise InputError(
                f"{name}: line {number} and the lines before it differ in having a class; "
                "give all one."
            )
        waiting.append((score, label))
        if len(waiting) == size:
            yield _batch(waiting)
            waiting = []
    if waiting:
        yield _batch(waiting)


def _batch(waiting: list[tuple[float, Any]]) -> Batch:
    scores = np.array([score for score, _ in waiting])
    classes = [label for _, label in waiting]
    return Batch(scores, None if classes[0] is None else classes)


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
        raise InputError("the score is NaN; fix the input or the detector.")
    return score, record.get("class", record.get("nearest"))
