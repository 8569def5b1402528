"""How much may come out of a file: a bomb is small, but unpacks to more than memory holds."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from typica.errors import FormatError

# How far a file may unpack: images and features hardly compress, bombs a thousandfold.
RATIO = 100
FLOOR = 1 << 28  # bytes that even a small file may unpack to
_VALUE = 8  # bytes of a number in memory, at most


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
    """Refuse a .parquet file that is a bomb: equal values take next to no room in it.

    group: the row group to look at, all if None.
    """
    groups = range(metadata.num_row_groups) if group is None else [group]
    size = 0
    for row_group in map(metadata.row_group, groups):
        for column in map(row_group.column, range(row_group.num_columns)):
            size += max(column.total_uncompressed_size, _VALUE * column.num_values)
    check_growth(path, size)


def allowance(stored: int) -> int:
    """Return how many bytes this many may unpack to."""
    return max(FLOOR, RATIO * stored)
