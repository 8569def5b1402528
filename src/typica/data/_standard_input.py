"""Features from standard input: .npy, JSON lines or CSV, told apart by how they begin."""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray
from typica.data._feature_csv import (
    check_widths,
    feature_places,
    numbers,
    split_header,
)
from typica.data._feature_table import UNNAMED, Features, sort_columns
from typica.errors import FormatError, InputError, about
from typica.files import file_lines, reading

NAME = Path("standard input")
ROWS = 1024  # of a block, at most
NPY = b"\x93"  # the first byte of an .npy file; no text in UTF-8 begins with it


def read_arriving(
    stream: io.BufferedReader, columns: Sequence[str] | None = None
) -> Iterator[AnyArray]:
    r"""Yield blocks of features (n, m) as they arrive; labels among them are left out.

    A line of JSON is a list of numbers, or an object whose "features" are one. CSV is read as a
    .csv file is. An .npy file is one block. columns: as `read_features` takes them.

    >>> stream = io.BufferedReader(io.BytesIO(b"[1, 2]\n[3, 4]\n"))
    >>> list(read_arriving(stream))
    [array([[1., 2.],
           [3., 4.]])]
    """
    binary = stream.peek(1)[:1] == NPY
    blocks = iter([_read_npy(stream)]) if binary else _read_text(stream, columns)
    empty = True
    for block in blocks:
        Features(block).check(NAME)
        empty = False
        yield block
    if empty:
        raise InputError(f"{NAME}: is empty; pipe features as .npy, JSON lines or CSV.")


def _read_npy(stream: io.BufferedReader) -> AnyArray:
    with reading(NAME, "not a whole .npy file"):
        array: AnyArray = np.load(io.BytesIO(stream.read()), allow_pickle=False)
        return array


def _read_text(
    stream: io.BufferedReader, columns: Sequence[str] | None
) -> Iterator[NDArray[np.float64]]:
    blocks = filter(None, map(_filled_lines, file_lines(stream, ROWS)))
    first = next(blocks, None)
    if first is None:
        return
    every = itertools.chain([first], blocks)
    yield from _read_json(every) if first[0][0] in "[{" else _read_csv(every, columns)


def _filled_lines(lines: list[str]) -> list[str]:
    """Return those lines of features on standard input that are not empty, stripped.

    Windows begins texts in UTF-8 with a mark, which would turn the first number into a name.
    """
    stripped = [line.removeprefix("\ufeff").strip() for line in lines]
    return [line for line in stripped if line]


def _read_csv(
    blocks: Iterable[list[str]], columns: Sequence[str] | None
) -> Iterator[NDArray[np.float64]]:
    header: list[str] | None = None
    places: list[int] = []
    seen = 0
    for lines in blocks:
        with reading(NAME, "not a CSV file", "fix it"):
            rows = list(csv.reader(lines))
        if header is None:
            header, rows = split_header(rows, columns)
            features = sort_columns(header, UNNAMED, NAME).features
            places = feature_places(header, features, columns, NAME)
        check_widths(rows, len(header), NAME, first=seen)
        if rows:
            yield numbers(rows, header, places, NAME, first=seen)
        seen += len(rows)


def _read_json(blocks: Iterable[list[str]]) -> Iterator[NDArray[np.float64]]:
    seen = 0
    for lines in blocks:
        rows = []
        for line in lines:
            with about(f"{NAME}: row {seen}"):
                rows.append(_json_row(line))
            seen += 1
        yield _matrix(rows)


def _json_row(line: str) -> NDArray[np.float64]:
    try:
        found = json.loads(line)
        if isinstance(found, dict):
            found = found["features"]
        row = np.array(found, dtype=np.float64)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        row = np.empty(0)
    if row.ndim != 1 or not row.size:
        raise FormatError(
            f'{line[:60]!r} holds no features; write a list of numbers or {{"features": [...]}}.'
        )
    return row


def _matrix(rows: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    widths = sorted({len(row) for row in rows})
    if len(widths) > 1:
        raise FormatError(f"{NAME}: rows of {widths[0]} and of {widths[-1]} numbers; fix them.")
    return np.array(rows)
