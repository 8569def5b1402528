"""How much may come out of a file: a bomb is small, and unpacks to more than the memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from typica.errors import FormatError

# What a file may unpack to: images and features hardly shrink at all, bombs a thousandfold.
RATIO = 100
FLOOR = 1 << 28  # bytes that even a small file may unpack to
_VALUE = 8  # bytes of a value in memory, at the most for numbers


def check_growth(path: str | os.PathLike[str], size: int, stored: int | None = None) -> None:
    """Refuse content of `size` bytes out of a small file: a bomb grows a thousandfold.

    stored: bytes that hold the content, the file's size if None.
    """
    stored = Path(path).stat().st_size if stored is None else stored
    if size > allowance(stored):
        raise FormatError(
            f"{path}: {stored:,} bytes that unpack to {size:,}, maybe a bomb; "
            "write it with less compression if you trust it."
        )


def check_parquet(path: Path, metadata: Any, group: int | None = None) -> None:
    """Refuse a bomb of a .parquet file: values that are all alike take next to no room in it.

    group: the row group to look at, all if None.
    """
    groups = range(metadata.num_row_groups) if group is None else [group]
    size = 0
    for row_group in map(metadata.row_group, groups):
        for column in map(row_group.column, range(row_group.num_columns)):
            size += max(column.total_uncompressed_size, _VALUE * column.num_values)
    check_growth(path, size)


def allowance(stored: int) -> int:
    """Return how many bytes may come out of so many."""
    return max(FLOOR, RATIO * stored)
