"""Cells of tables that a spreadsheet would run as formulas: quoted, and read back."""

from __future__ import annotations

import re
from typing import TypeVar

# What a spreadsheet takes for a formula, with any number of our own quotes before it.
_RUNS = re.compile(r"'*[=+\-@\t\r]")
T = TypeVar("T")


def quoted_cell(value: T) -> T | str:
    """Return a cell of a table so that no spreadsheet runs it; numbers stay as they are.

    >>> quoted_cell("=1+1"), quoted_cell("cat"), quoted_cell(-3)
    ("'=1+1", 'cat', -3)
    """
    if isinstance(value, str) and _RUNS.match(value):
        return f"'{value}"
    return value


def plain_cell(text: str) -> str:
    """Return the text that `quoted_cell` was given.

    >>> plain_cell("'=1+1"), plain_cell("'tis")
    ('=1+1', "'tis")
    """
    if text.startswith("'") and _RUNS.match(text):
        return text[1:]
    return text
