"""Features in Parquet: one list column, or one column per feature."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from typica.arrays import AnyArray
from typica.bombs import check_parquet
from typica.data._feature_table import (
    NAMED_COLUMNS,
    UNNAMED,
    Features,
    NamedColumns,
    check_groups,
    columns_in_order,
    names_apart,
    sort_columns,
)
from typica.errors import FormatError, by_caller
from typica.extras import need
from typica.files import reading
from typica.labels import with_gaps

_INDEX = re.compile(r"__index_level_\d+__")  # how pandas calls an index that has no name


def read_parquet(path: Path, wanted: NamedColumns = UNNAMED, *, of_bank: bool = False) -> Features:
    """Read the column of lists, or all columns of numbers, and the labels if there are any.

    The column of lists is called `features`, or is the only one.

    of_bank: the file was written from a bank, whose column `logits` is then read as well.
    """
    columns = _read_columns(path)
    found = sort_columns(columns, wanted, path)
    labels = None if found.labels is None else _labels(columns[found.labels])
    groups = None
    if found.groups is not None:
        column = columns[found.groups]
        check_groups(found.groups, column.null_count, len(column), path)
        groups = _labels(column)
    of_lists = _column_of_lists(columns, found.features)
    by_name = wanted.columns is not None and set(wanted.columns) <= set(found.features)
    if of_lists is None or by_name:
        there = [name for name in found.features if not _INDEX.fullmatch(name)]
        names = columns_in_order(there, wanted.columns, path)
        features = _numeric({name: columns[name] for name in names}, path)
        return Features(features, labels, groups=groups, names=names_apart(names))
    with_logits = of_bank and "logits" in found.features
    logits = _matrix(columns["logits"], "logits", path) if with_logits else None
    return Features(_matrix(columns[of_lists], of_lists, path), labels, logits, groups)


def _column_of_lists(columns: dict[str, Any], names: Sequence[str]) -> str | None:
    """Return the column `features`, or else the only column of lists; None if there is none."""
    if "features" in names:
        return "features"
    lists = [name for name in names if hasattr(columns[name], "value_lengths")]
    return lists[0] if len(lists) == 1 else None


def parquet_columns(path: Path) -> list[str]:
    """Return the names of a .parquet file's columns."""
    parquet = need("pyarrow.parquet", "parquet")
    with reading(path, "not a whole .parquet file"):
        names: list[str] = parquet.read_schema(path).names
        return names


def _read_columns(path: Path) -> dict[str, Any]:
    parquet = need("pyarrow.parquet", "parquet")
    with reading(path, "not a whole .parquet file"):
        check_parquet(path)
        table = parquet.read_table(path)
        columns = {name: table.column(name).combine_chunks() for name in table.column_names}
        return {name: getattr(column, "storage", column) for name, column in columns.items()}


def _labels(column: Any) -> AnyArray | None:
    """Return the labels of rows, None for one that has none; None where no row has any."""
    if column.null_count == len(column):
        return None
    labels: AnyArray = column.drop_null().to_numpy(zero_copy_only=False)
    if labels.dtype == object:
        labels = labels.astype(np.str_)
    return with_gaps(labels, column.is_valid().to_pylist())


def _matrix(column: Any, name: str, path: Path) -> AnyArray:
    """Return a column of lists in a .parquet file as a matrix."""
    lengths = np.unique(np.asarray(column.value_lengths()))
    if column.null_count or len(lengths) != 1:
        raise FormatError(
            f"{path}: rows of the column {name!r} differ in length; write rows of one length."
        )
    values: AnyArray = column.flatten().to_numpy(zero_copy_only=False)
    return values.reshape(len(column), -1)


def _numeric(columns: dict[str, Any], path: Path) -> AnyArray:
    """Return the numeric columns of a .parquet file, one per feature, as a matrix."""
    arrays = {name: column.to_numpy(zero_copy_only=False) for name, column in columns.items()}
    if not arrays:
        raise FormatError(f"{path}: needs a list column 'features', or numeric columns.")
    for name, array in arrays.items():
        if array.dtype.kind not in "fiub":
            raise FormatError(
                f"{path}: the column {name!r} is not of numbers ({columns[name].type}); take it "
                f"out, call it 'label' if it holds labels, {by_caller(*NAMED_COLUMNS)}."
            )
    return np.column_stack(list(arrays.values()))
