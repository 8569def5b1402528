"""Scores from lines of text, as `typica score` writes them or as any program can."""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from typica.errors import InputError, about, border
from typica.files import file_lines
from typica.spreadsheets import plain_cell

SIZE = 1024  # scores of a batch
CLASSES = ("class", "nearest")  # names for the class of an input; the first that is there counts


class Batch(NamedTuple):
    """Scores in the order of their arrival, and their classes where the lines have any."""

    scores: NDArray[np.float64]
    classes: list[Any] | None


@border
def read_scores(
    lines: Iterable[str], size: int = SIZE, name: str = "", *, whole: bool = False
) -> Iterator[Batch]:
    """Yield batches of at most `size` scores.

    A line is a number or a JSON object with "score" and maybe "class" or "nearest"; or the lines
    are CSV with such a header. All lines must have a class, or none. Empty lines and rows whose
    verdict and score are null are skipped. Where `lines` is standard input or another open file, a
    batch is what has arrived: it does not wait for a slow stream. name: what the lines are called
    in messages. whole: refuse verdicts in JSON that do not end with their number, as those of
    `typica score -o -` do if it does not fail.

    >>> list(read_scores(["0.5", '{"score": 0.75}']))
    [Batch(scores=array([0.5 , 0.75]), classes=None)]
    >>> list(read_scores(['{"score": 0.25, "class": "cat"}']))
    [Batch(scores=array([0.25]), classes=['cat'])]
    >>> list(read_scores(["row,score,nearest", "0,0.5,cat"]))
    [Batch(scores=array([0.5]), classes=['cat'])]
    """
    reader = _Reader(name)
    for block in _blocks(lines, size):
        scored = reader.read(block)
        while found := list(itertools.islice(scored, size)):
            yield _batch(found)
    if whole:
        reader.check_end()


def _blocks(lines: Iterable[str], size: int) -> Iterator[Iterable[str]]:
    """Yield the lines of scores that arrive each time a stream is read; others as they are."""
    stream = getattr(lines, "buffer", None)
    if isinstance(stream, (io.BufferedReader, io.BytesIO)):
        yield from file_lines(stream, size)
    else:
        yield lines


def _batch(found: list[tuple[float, Any]]) -> Batch:
    scores = np.array([score for score, _ in found])
    classes = [label for _, label in found]
    return Batch(scores, None if classes[0] is None else classes)


class _Reader:
    """What is known of the lines so far: how many, the header of CSV, whether they have classes."""

    def __init__(self, name: str) -> None:
        self._begins = f"{name}: " if name else ""
        self._number = 0
        self._header: list[str] | None = None
        self._has_class: bool | None = None
        self._rows = 0  # since the last line that tells their number
        self._has_verdicts = False  # as `typica score` prints them, which tells their number

    def read(self, lines: Iterable[str]) -> Iterator[tuple[float, Any]]:
        """Yield the score and the class of each line that is not empty."""
        for line in lines:
            self._number += 1
            if not line.strip() or self._is_header(line):
                continue
            with about(f"{self._begins}line {self._number}"):
                record = _record(line, self._header)
                if self._is_end(record):
                    continue
                self._rows += 1
                self._has_verdicts |= "verdict" in record and self._header is None
                if _is_skipped(record):
                    continue
                score, label = _parse(record, line)
            self._check_alike(label is not None)
            yield score, label

    def _is_header(self, line: str) -> bool:
        """Tell whether a line begins CSV, and keep its columns; only the first of all can."""
        if self._has_class is not None or self._header is not None:
            return False
        columns = [column.strip() for column in _fields(line.removeprefix("\ufeff"))]
        if "score" in columns:
            self._header = columns
        return self._header is not None

    def _is_end(self, record: dict[str, Any]) -> bool:
        """Tell whether a line is the last one of `typica score`; refuse a number that is wrong."""
        if "end" not in record or "score" in record:
            return False
        if record["end"] != self._rows:
            raise InputError(
                f"{record['end']} rows were written and {self._rows} came; pass all of them."
            )
        self._rows, self._has_verdicts = 0, False
        return True

    def check_end(self) -> None:
        """Refuse verdicts without the last line that tells their number."""
        if self._has_verdicts:
            raise InputError(
                f"{self._begins}the line that ends verdicts is missing after line {self._number}: "
                "`typica score` has failed or was stopped; nothing is kept, run both again. A file "
                "that it wrote whole is passed with < FILE."
            )

    def _check_alike(self, has_class: bool) -> None:
        if self._has_class not in (None, has_class):
            raise InputError(
                f"{self._begins}line {self._number} and the lines before it differ: some have a "
                "class, some do not; give every line one, or none."
            )
        self._has_class = has_class


def _is_skipped(record: dict[str, Any]) -> bool:
    """Tell whether a line is of a row without a verdict, which `typica score` has skipped."""
    there = "verdict" in record and "score" in record
    return there and record["verdict"] in (None, "") and record["score"] in (None, "")


def _parse(record: dict[str, Any], line: str) -> tuple[float, Any]:
    try:
        score = float(record["score"])
    except (ValueError, TypeError, KeyError, OverflowError):
        raise _no_score(line) from None
    if np.isnan(score):
        raise InputError("the score is NaN; fix the input or the detector.")
    named = (record[name] for name in CLASSES if name in record)
    label = next(named, None)
    if isinstance(label, dict | list):
        raise InputError("the class is not a single name; write a text or a number.")
    return score, label


def _record(line: str, header: list[str] | None) -> dict[str, Any]:
    """Return what a line says by name: CSV below a header, else JSON."""
    try:
        if header is not None:
            return dict(zip(header, _fields(line), strict=True))
        record = json.loads(line)
    except (ValueError, RecursionError):
        raise _no_score(line) from None
    if isinstance(record, dict):
        return record
    return {"score": record}


def _no_score(line: str) -> InputError:
    text = line.strip()[:60]
    return InputError(f'{text!r} holds no score; write a number or {{"score": number}}.')


def _fields(line: str) -> list[str]:
    try:
        return [plain_cell(field) for field in next(csv.reader([line.strip()]))]
    except (csv.Error, StopIteration):
        return []
