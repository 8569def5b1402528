"""How much may come out of a file: a bomb is small, and unpacks to more than the memory."""

from __future__ import annotations

import os
from pathlib import Path

from typica.errors import FormatError

# What a file may unpack to: images and features hardly shrink at all, bombs a thousandfold.
RATIO = 100
FLOOR = 1 << 28  # bytes that even a small file may unpack to


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


def allowance(stored: int) -> int:
    """Return how many bytes may come out of so many."""
    return max(FLOOR, RATIO * stored)
