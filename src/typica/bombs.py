"""How much may come out of a file: a bomb is small, but unpacks to more than memory holds."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from typica.errors import FormatError
from typica.extras import need

# How far a file may unpack: images and features hardly compress, bombs a thousandfold.
RATIO = 100
FLOOR = 1 << 28  # bytes that even a small file may unpack to
_VALUE = 8  # bytes of a number in memory, at most
_PARQUET_BUFFER = 4096  # bytes


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


def check_parquet(path: str | os.PathLike[str]) -> None:
    """Refuse a .parquet file that is a bomb: equal values take next to no room in it."""
    check_growth(path, sum(parquet_sizes(parquet_ends(path), _VALUE)))


def parquet_ends(opened: Any) -> Any:
    """Return a .parquet file of which a reader reads nothing before a row is asked for.

    opened: a path, or a file that Arrow can read.
    """
    parquet = need("pyarrow.parquet", "parquet")
    return parquet.ParquetFile(opened, pre_buffer=False, buffer_size=_PARQUET_BUFFER)


def parquet_sizes(file: Any, value: int) -> list[int]:
    """Return how many bytes each row group takes in memory, with at least `value` a number.

    file: of `parquet_ends`.
    """
    return [_group_size(file, number, value) for number in range(file.metadata.num_row_groups)]


def _group_size(file: Any, number: int, value: int) -> int:
    # Damage in a column's metadata is an error of Arrow's reader, but the end of the process if the
    # metadata is asked first. A batch of no rows makes a reader.
    # Without a column Arrow divides by that nought, which ends the process too.
    if file.metadata.num_columns:
        list(file.reader.iter_batches(0, [number], use_threads=False))
    group = file.metadata.row_group(number)
    columns = [group.column(place) for place in range(group.num_columns)]
    return sum(max(c.total_uncompressed_size, value * c.num_values) for c in columns)


def allowance(stored: int) -> int:
    """Return how many bytes this many may unpack to."""
    return max(FLOOR, RATIO * stored)
