"""Features in Parquet: one list column, or one column per feature."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica.data._table import Features, label_name
from typica.errors import FormatError
from typica.extras import need


def read_parquet(path: Path, *, of_bank: bool = False) -> Features:
    """Read the list column `features`, or all numeric columns, and the labels if there are any.

    of_bank: the file was written from a bank, whose column `logits` is then read as well.
    """
    columns = _read_columns(path)
    label = label_name(columns)
    labels = None if label is None else _labels(columns.pop(label))
    if "features" not in columns:
        return Features(_numeric(columns, path), labels)
    with_logits = of_bank and "logits" in columns
    logits = _matrix(columns["logits"], "logits", path) if with_logits else None
    return Features(_matrix(columns["features"], "features", path), labels, logits)


def parquet_columns(path: Path) -> list[str]:
    """Return the names of a .parquet file's columns."""
    names: list[str] = need("pyarrow.parquet", "parquet").read_schema(path).names
    return names


def _read_columns(path: Path) -> dict[str, Any]:
    arrow, parquet = need("pyarrow", "parquet"), need("pyarrow.parquet", "parquet")
    try:
        table = parquet.read_table(path)
    except (arrow.ArrowException, OSError) as error:
        raise FormatError(f"{path}: not a whole .parquet file ({error}); write it again.") from None
    return {name: table.column(name).combine_chunks() for name in table.column_names}


def _labels(column: Any) -> NDArray[Any]:
    labels: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return labels.astype(np.str_) if labels.dtype == object else labels


def _matrix(column: Any, name: str, path: Path) -> NDArray[Any]:
    """Return a column of lists as a matrix."""
    lengths = np.unique(np.asarray(column.value_lengths()))
    if column.null_count or len(lengths) != 1:
        raise FormatError(
            f"{path}: rows of the column {name!r} differ in length; write rows of one length."
        )
    values: NDArray[Any] = column.flatten().to_numpy(zero_copy_only=False)
    return values.reshape(len(column), -1)


def _numeric(columns: dict[str, Any], path: Path) -> NDArray[Any]:
    """Return one column per feature as a matrix."""
    arrays = [column.to_numpy(zero_copy_only=False) for column in columns.values()]
    if not arrays or any(array.dtype.kind not in "fiub" for array in arrays):
        raise FormatError(
            f"{path}: needs a list column 'features', or numeric columns and maybe a 'label'."
        )
    return np.column_stack(arrays)
