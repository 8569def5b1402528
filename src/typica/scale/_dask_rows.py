"""Collections of Dask as pieces: partitions with the labels and the number of their first row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from typica.errors import InputError, counted
from typica.extras import need
from typica.labels import as_labels
from typica.scale._batches import Batch, array_batches, read_records
from typica.scale._columns import (
    FEATURES,
    Columns,
    Wanted,
    check_schema,
    label_column,
    missing_column,
    named_columns,
    wrong_table_width,
)

_LABELS = "labels that were passed"  # what a series of them is called beside the features
Read = Callable[[Any, Any, str, int], Iterator[Batch]]


class Piece(NamedTuple):
    """A partition, its labels or None, and where its first row is: row `start` of `source`."""

    value: Any
    labels: Any
    source: str
    start: int


class Rows(NamedTuple):
    """A collection as pieces.

    read: turns a piece into batches. n, width: how many rows and features, if that is known.
    divisions: of a data frame's index. empty: a piece without rows. columns: those of a data frame.
    """

    pieces: list[Piece]
    read: Read
    n: int | None
    width: int | None
    has_labels: bool
    divisions: tuple[Any, ...]
    empty: Any
    columns: Columns | None = None


def opened_rows(X: Any, y: Any, wanted: Wanted, width: int | None, find: bool = False) -> Rows:
    """Return an array or a data frame as pieces, and refuse what does not fit before it is read.

    wanted: which columns of a data frame. width: how many features there must be. find: use a
    column `label`, if there is no y.
    """
    if hasattr(X, "columns"):
        rows = _of_frame(X, y, wanted, find, width)
    elif getattr(X, "ndim", None) == 2:
        rows = _of_array(X, y, skip=wanted.on_error == "skip")
    else:
        shape = getattr(X, "shape", None)
        found = type(X).__name__ if shape is None else f"an array of shape {shape}"
        raise InputError(f"got {found}; pass a Dask array (n, m), or a data frame.")
    if width is not None and rows.width not in (None, width):
        raise wrong_table_width(rows.width, width)
    return rows


def _of_array(X: Any, y: Any, *, skip: bool) -> Rows:
    if isinstance(y, str):
        raise InputError(f"y={y!r}: an array has no columns; pass the labels themselves.")
    whole = X.rechunk({1: -1})
    values = whole.to_delayed().ravel().tolist()
    lengths = _lengths(whole.chunks[0], values)
    starts = [0, *accumulate(lengths)][:-1]
    rows = zip(values, _labels(y, lengths), starts, strict=True)
    pieces = [Piece(value, labels, "", start) for value, labels, start in rows]
    width, unknown = int(X.shape[1]), (None,) * (len(values) + 1)
    empty = np.empty((0, width), X.dtype)
    read = partial(_read_array, skip)
    return Rows(pieces, read, sum(lengths), width, y is not None, unknown, empty)


def _of_frame(X: Any, y: Any, wanted: Wanted, find: bool, known: int | None) -> Rows:
    whole, label = _with_label_column(X, y, find)
    columns = replace(_chosen(whole, wanted, label), width=known)
    frame = whole[columns.names].optimize()  # may join partitions, so it is done once
    labels_apart = y if label is None else None
    pieces = _frame_pieces(frame.to_delayed(), labels_apart)
    width = None if isinstance(columns.features, str) else len(columns.features)
    has_labels = label is not None or y is not None
    read = partial(_read_frame, columns)
    return Rows(pieces, read, None, width, has_labels, frame.divisions, frame._meta, columns)


def _with_label_column(X: Any, y: Any, find: bool) -> tuple[Any, str | None]:
    """Return a data frame and the name of its column of labels, None if no column holds them."""
    if isinstance(y, str):
        return X, y
    if y is None:
        return X, label_column(list(X.columns)) if find else None
    if hasattr(y, "to_delayed") and hasattr(y, "divisions"):  # a series, which Dask aligns
        return X.assign(**{_LABELS: y}), _LABELS
    return X, None


def _frame_pieces(values: Sequence[Any], y: Any) -> list[Piece]:
    """Return partitions of a data frame as pieces; y: their labels, if no column holds them."""
    labels: Sequence[Any] = [None] * len(values)
    if y is not None:
        # Counting rows means reading them, so it is done only for these labels.
        labels = _labels(y, _counted(values))
    pieces = []
    for number, (value, some) in enumerate(zip(values, labels, strict=True)):
        pieces.append(Piece(value, some, f"partition {number}", 0))
    return pieces


def _read_array(skip: bool, block: Any, labels: Any, source: str, start: int) -> Iterator[Batch]:
    known = None if labels is None else as_labels(labels)
    if known is not None:
        _check_count(len(known), len(block))
    return array_batches(np.asarray(block), known, source, start, skip=skip)


def _read_frame(
    columns: Columns, frame: Any, labels: Any, source: str, start: int
) -> Iterator[Batch]:
    arrow = need("pyarrow", "dask")
    record = arrow.RecordBatch.from_pandas(frame[columns.names], preserve_index=False)
    if len(record):
        check_schema(record.schema, columns)
    known = None if labels is None else as_labels(labels)
    if known is not None:
        _check_count(len(known), len(record))
    return read_records([record], columns, source, start, name=source, labels=known)


def _lengths(chunks: Sequence[float], values: list[Any]) -> list[int]:
    """Return how many rows each piece has; if Dask does not know, they are counted."""
    if np.isnan(chunks).any():
        return _counted(values)
    return [int(length) for length in chunks]


def _counted(values: Sequence[Any]) -> list[int]:
    dask = need("dask", "dask")
    return list(dask.compute(*[dask.delayed(len)(value) for value in values]))


def _labels(y: Any, lengths: list[int]) -> Sequence[Any]:
    """Return the labels of each piece: those of a partition, or a stretch of an array."""
    if y is None:
        return [None] * len(lengths)
    if hasattr(y, "to_delayed"):
        return _label_partitions(y, lengths)
    known = as_labels(y)
    _check_count(len(known), sum(lengths))
    return np.split(known, list(accumulate(lengths))[:-1])


def _label_partitions(y: Any, lengths: list[int]) -> list[Any]:
    """Return the partitions of a Dask collection of labels, one for each piece."""
    if hasattr(y, "rechunk") and not np.isnan(y.shape).any():
        _check_count(y.shape[0], sum(lengths))
        y = y.rechunk((tuple(lengths),))
    partitions: list[Any] = np.asarray(y.to_delayed(), dtype=object).ravel().tolist()
    if len(partitions) != len(lengths):
        raise InputError(
            f"{len(partitions)} partitions of labels for {len(lengths)} of rows; "
            "repartition y like X."
        )
    return partitions


def _check_count(labels: int, rows: int) -> None:
    if labels != rows:
        labelled = counted(labels, "label")
        raise InputError(f"{labelled} for {counted(rows, 'row')}; one per row is needed.")


def _chosen(X: Any, wanted: Wanted, labels: str | None) -> Columns:
    """Return the columns of a data frame to read; refuse those that are not there."""
    there = [str(name) for name in X.columns]
    features = _feature_columns(there, wanted, labels)
    chosen = Columns(features, labels, wanted.ids, wanted.on_error == "skip")
    for name in chosen.names:
        if name not in there:
            raise missing_column(name, there)
    for name in chosen.numbers:
        _check_dtype(name, X.dtypes[name], isinstance(features, str))
    return chosen


def _feature_columns(there: list[str], wanted: Wanted, labels: str | None) -> str | tuple[str, ...]:
    """Return the column of lists, or the columns of numbers, that hold the features."""
    if wanted.columns is not None:
        return wanted.in_order(named_columns(wanted.columns, there))
    if wanted.features is not None:
        return wanted.features
    others = [name for name in there if name not in (labels, wanted.ids)]
    if FEATURES in others:
        return FEATURES
    return others[0] if len(others) == 1 else wanted.in_order(tuple(others))


def _check_dtype(name: str, dtype: Any, lists: bool) -> None:
    """Refuse a column whose type shows that it holds no features."""
    types = need("pandas.api.types", "dask")
    numbers = types.is_numeric_dtype(dtype) or types.is_bool_dtype(dtype)
    if lists and isinstance(dtype, need("pandas", "dask").StringDtype):
        raise InputError(
            f"the column {name!r} is of {dtype}; features are lists of numbers, and Dask makes "
            "texts of them unless dask.config.set({'dataframe.convert-string': False})."
        )
    if lists and numbers:
        raise InputError(f"the column {name!r} is of {dtype}; features are lists of numbers.")
    if not lists and not numbers:
        raise InputError(f"the column {name!r} is of {dtype}; features are numbers.")
