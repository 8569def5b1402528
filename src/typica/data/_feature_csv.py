"""Features and labels as text: .csv and .txt."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray
from typica.data._feature_table import LABELS, Features, label_name, no_column
from typica.errors import FormatError
from typica.files import read_text, reading
from typica.spreadsheets import plain_cell

Row = list[str]

_INT64 = np.iinfo(np.int64)


def read_csv(path: Path, groups: str | None = None) -> Features:
    """Read numbers, one row per line, with an optional header and an optional column of labels.

    groups: the name of a column that is not a feature either.
    """
    header, rows = split_header(read_lines(path))
    check_widths(rows, len(header), path)
    check_names(header, path)
    if groups is not None and groups not in header:
        raise no_column(path, groups, header)
    named = None if groups is None else _taken_out(groups, header, rows, path)
    label = label_name(header)
    labels = None if label is None else _taken_out(label, header, rows, path)
    return Features(numbers(rows, path), labels, groups=named)


def _taken_out(name: str, header: list[str], rows: Sequence[Row], path: Path) -> AnyArray | None:
    """Return the column of this name, which the rows then lack; None where it is empty."""
    column = header.index(name)
    del header[column]
    return _column_of_labels([row.pop(column) for row in rows], path)


def _column_of_labels(fields: Sequence[str], path: Path) -> AnyArray | None:
    """Return labels, or groups; None where there are none. A gap would be a class of its own."""
    texts = [plain_cell(field.strip()) for field in fields]
    missing = texts.count("")
    if not missing:
        return csv_labels(texts)
    if missing == len(texts):
        return None
    raise FormatError(f"{path}: {missing} rows have no label; write one per row, or none at all.")


def read_csv_labels(path: Path) -> AnyArray | None:
    """Read the column of labels, or the only column; None where no column is called 'label'."""
    lines = _fields(path)
    if all(len(line) == 1 for line in lines):
        return _below_header([line[0] for line in lines])
    header, rows = split_header(lines)
    check_widths(rows, len(header), path)
    label = label_name(header)
    if label is None:
        return None
    column = header.index(label)
    return _column_of_labels([row[column] for row in rows], path)


def read_label_lines(path: Path) -> AnyArray:
    """Read one label per line, commas and quotes included, below an optional header."""
    return _below_header(read_text(path).splitlines())


def _below_header(lines: Iterable[str]) -> AnyArray:
    labels = [plain_cell(line.strip()) for line in lines if line.strip()]
    if labels and labels[0] in LABELS:
        labels = labels[1:]
    return csv_labels(labels)


def read_lines(path: Path) -> list[Row]:
    """Return the fields of each line that is not empty; raise if there is none."""
    rows = _fields(path)
    if not rows:
        raise FormatError(f"{path}: the file is empty; expected one line per row.")
    return rows


def _fields(path: Path) -> list[Row]:
    with reading(path, "not a table in text", "fix it"):
        return [row for row in csv.reader(read_text(path).splitlines()) if row]


def split_header(rows: list[Row]) -> tuple[list[str], list[Row]]:
    """Return the columns' names and the other rows; columns without a header are numbered.

    A header has a name among its fields. A row of numbers that lacks some is not one: it stays
    with the others, so that it is complained of rather than lost.
    """
    first = rows[0]
    if all(_is_number(field) or not field.strip() for field in first):
        return [str(column) for column in range(len(first))], rows
    return [name.strip() for name in first], rows[1:]


def check_widths(rows: Sequence[Row], width: int, path: Path, first: int = 0) -> None:
    """Raise at the first row that has more or fewer fields than the others.

    first: the number of the first row.
    """
    for i, row in enumerate(rows, first):
        if len(row) != width:
            raise FormatError(f"{path}: row {i} has {len(row)} fields instead of {width}; fix it.")


def check_names(header: Sequence[str], path: Path) -> None:
    """Raise at a column without a name: as a feature, the numbers of rows would outweigh others."""
    if "" in header:
        raise FormatError(
            f"{path}: column {header.index('')} has no name, maybe it is the index of pandas; "
            "write the table with index=False, or name the column."
        )


def numbers(rows: Sequence[Row], path: Path, first: int = 0) -> NDArray[np.float64]:
    """Return rows of texts as a matrix.

    first: the number of the first row.
    """
    matrix = []
    for i, row in enumerate(rows, first):
        try:
            matrix.append(list(map(float, row)))
        except ValueError as error:
            raise FormatError(
                f"{path}: row {i}: {error}; all columns but 'label' must be numbers."
            ) from None
    return np.array(matrix, dtype=np.float64)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def csv_labels(texts: Sequence[str]) -> AnyArray:
    """Return labels or groups of a .csv or .txt file: whole numbers where all are, else texts.

    >>> csv_labels(["3", "-1"]), csv_labels(["3", "--5"]), csv_labels(["3", "²"])
    (array([ 3, -1]), array(['3', '--5'], dtype='<U3'), array(['3', '²'], dtype='<U1'))
    """
    if not all(map(_is_whole_text, texts)):
        return np.array(texts)
    numbers = [int(text) for text in texts]
    if any(not _INT64.min <= number <= _INT64.max for number in numbers):
        return np.array(texts)
    return np.array(numbers, dtype=np.int64)


def _is_whole_text(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit()
