"""Features and labels as text: .csv and .txt."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray
from typica.data._feature_table import (
    LABELS,
    NAMED_COLUMNS,
    UNNAMED,
    Features,
    NamedColumns,
    check_groups,
    columns_in_order,
    label_name,
    names_apart,
    sort_columns,
)
from typica.errors import FormatError, by_caller
from typica.files import read_text, reading
from typica.labels import with_gaps
from typica.spreadsheets import plain_cell

Row = list[str]

_INT64 = np.iinfo(np.int64)


def read_csv(path: Path, wanted: NamedColumns = UNNAMED) -> Features:
    """Read numbers, one row per line, with an optional header and an optional column of labels."""
    header, rows = split_header(read_lines(path), wanted.columns)
    check_widths(rows, len(header), path)
    found = sort_columns(header, wanted, path)
    labels = _labels(found.labels, header, rows)
    groups = _groups(found.groups, header, rows, path)
    places = feature_places(header, found.features, wanted.columns, path)
    names = None if _is_numbered(header) else names_apart([header[place] for place in places])
    return Features(numbers(rows, header, places, path), labels, groups=groups, names=names)


def csv_columns(path: Path) -> list[str]:
    """Return the names in a .csv file's header; none if it has no header."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        first = next(filter(None, csv.reader(file)), [])
    header, others = split_header([first])
    return [] if others else header


def feature_places(
    header: Sequence[str], features: Sequence[str], wanted: Sequence[str] | None, path: Path
) -> list[int]:
    """Return which columns of a .csv file are features, in the order that is wanted.

    features: the names of those that may be. wanted: the names that the detector knows, if any;
    columns without names, which have numbers here, are taken as they come.
    """
    unnamed = _is_numbered(header) and not _names_all(header, wanted)
    if wanted is None or unnamed:
        check_names(header, path)
        there = set(features)
        return [place for place, name in enumerate(header) if name in there]
    places: dict[str, int] = {}
    for place, name in enumerate(header):
        places.setdefault(name, place)
    return [places[name] for name in columns_in_order(features, wanted, path)]


def _names_all(first: Sequence[str], wanted: Sequence[str] | None) -> bool:
    """Tell whether all columns that a detector knows are among the fields of a first line."""
    return wanted is not None and set(wanted) <= {field.strip() for field in first}


def _is_numbered(header: Sequence[str]) -> bool:
    """Tell whether the columns of a .csv file are numbered, as it has no header."""
    return list(header) == _numbered(len(header))


def _numbered(n: int) -> list[str]:
    return [str(column) for column in range(n)]


def _labels(name: str | None, header: Sequence[str], rows: Sequence[Row]) -> AnyArray | None:
    """Return the labels of rows, None for one that has none; None where no row has any."""
    if name is None:
        return None
    texts = _texts_of(name, header, rows)
    there = [text != "" for text in texts]
    if not any(there):
        return None
    return with_gaps(csv_labels([text for text in texts if text]), there)


def _groups(
    name: str | None, header: Sequence[str], rows: Sequence[Row], path: Path
) -> AnyArray | None:
    """Return what each row belongs to; refuse a row that belongs to nothing."""
    if name is None:
        return None
    texts = _texts_of(name, header, rows)
    check_groups(name, texts.count(""), len(texts), path)
    return csv_labels(texts)


def _texts_of(name: str, header: Sequence[str], rows: Sequence[Row]) -> list[str]:
    column = header.index(name)
    return [plain_cell(row[column].strip()) for row in rows]


def read_csv_labels(path: Path) -> AnyArray | None:
    """Read the column of labels, or the only column; None where no column is called 'label'."""
    lines = _fields(path)
    if all(len(line) == 1 for line in lines):
        return _below_header([line[0] for line in lines])
    header, rows = split_header(lines)
    check_widths(rows, len(header), path)
    return _labels(label_name(header), header, rows)


def read_label_lines(path: Path) -> AnyArray:
    """Read one label per line, commas and quotes included, below an optional header."""
    return _below_header(read_text(path).splitlines())


def _below_header(lines: Iterable[str]) -> AnyArray:
    labels = [plain_cell(line.strip()) for line in lines if line.strip()]
    if labels and (labels[0] in LABELS or _is_header_of_numbers(labels)):
        labels = labels[1:]
    return csv_labels(labels)


def _is_header_of_numbers(lines: Sequence[str]) -> bool:
    """Tell whether the first line of labels is a text above whole numbers, in at least two rows."""
    below = lines[1:]
    return len(below) > 1 and not _is_whole_text(lines[0]) and all(map(_is_whole_text, below))


def read_lines(path: Path) -> list[Row]:
    """Return the fields of each line that is not empty; raise if there is none."""
    rows = _fields(path)
    if not rows:
        raise FormatError(f"{path}: the file is empty; expected one line per row.")
    return rows


def _fields(path: Path) -> list[Row]:
    with reading(path, "not a CSV file", "fix it"):
        return [row for row in csv.reader(read_text(path).splitlines()) if row]


def split_header(
    rows: list[Row], wanted: Sequence[str] | None = None
) -> tuple[list[str], list[Row]]:
    """Return the columns' names and the other rows; columns without a header are numbered.

    A header has a name among its fields, or all names that are wanted: pandas calls columns
    without names 0, 1, 2. A row of numbers with gaps is not a header: it stays with the other
    rows, so that it is reported and not lost.
    """
    first = rows[0]
    numbers_only = all(_is_number(field) or not field.strip() for field in first)
    if numbers_only and not _names_all(first, wanted):
        return _numbered(len(first)), rows
    return [name.strip() for name in first], rows[1:]


def check_widths(rows: Sequence[Row], width: int, path: Path, first: int = 0) -> None:
    """Raise at the first row that has more or fewer fields than the others.

    first: the number of the first row.
    """
    for i, row in enumerate(rows, first):
        if len(row) != width:
            raise FormatError(f"{path}: row {i} has {len(row)} fields instead of {width}; fix it.")


def check_names(header: Sequence[str], path: Path) -> None:
    """Raise at a column without a name: as a feature, row numbers would outweigh the others."""
    if "" in header:
        raise FormatError(
            f"{path}: column {header.index('')} has no name, maybe it is the index of pandas; "
            "write the table with index=False, or name the column."
        )


def numbers(
    rows: Sequence[Row], header: Sequence[str], places: Sequence[int], path: Path, first: int = 0
) -> NDArray[np.float64]:
    """Return the columns at these places, in rows of texts, as a matrix of numbers.

    first: the number of the first row.
    """
    matrix = []
    for i, row in enumerate(rows, first):
        try:
            matrix.append([float(row[place]) for place in places])
        except ValueError:
            place = next(place for place in places if not _is_number(row[place]))
            raise FormatError(
                f"{path}: row {i}: {row[place]!r} in the column {header[place]!r} is not a number; "
                "fix it, take the column out, call it 'label' if it holds labels, "
                f"{by_caller(*NAMED_COLUMNS)}."
            ) from None
    return np.array(matrix, dtype=np.float64).reshape(len(rows), len(places))


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
