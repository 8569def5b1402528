"""Texts of others in files and pages: control characters are escaped, formulas quoted."""

from __future__ import annotations

import re
from typing import TypeVar

# What a spreadsheet takes for a formula, with any number of our own quotes before it.
_RUNS = re.compile(r"'*[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
# Characters that move the cursor, colour what follows, or turn the direction of reading.
_CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
T = TypeVar("T")


def visible(value: T) -> T | str:
    r"""Return a text in which control characters are seen, not obeyed; others as they are.

    >>> visible("cat\x1b[31m"), visible("gpj.\u202etac"), visible("two\nlines"), visible(3)
    ('cat\\x1b[31m', 'gpj.\\u202etac', 'two\nlines', 3)
    """
    if isinstance(value, str) and not hasattr(value, "__html__"):  # which is ours
        return _CONTROLS.sub(_escaped, value)
    return value


def one_line(text: str) -> str:
    r"""Return a text as one line, its control characters `visible`: a break would forge a line.

    >>> one_line("cat.png\ndog.png  typical")
    'cat.png\\ndog.png  typical'
    """
    return str(visible(text)).replace("\n", "\\n")


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def quoted_cell(value: T) -> T | str:
    """Return a cell of a table that is `visible`, and that no spreadsheet runs.

    Numbers stay as they are, as texts too.

    >>> quoted_cell("=1+1"), quoted_cell("cat"), quoted_cell(-3), quoted_cell("-1")
    ("'=1+1", 'cat', -3, '-1')
    """
    shown = visible(value)
    if isinstance(shown, str) and _RUNS.match(shown) and not _NUMBER.fullmatch(shown):
        return f"'{shown}"
    return shown


def plain_cell(text: str) -> str:
    """Return the text that `quoted_cell` was given, but for control characters.

    >>> plain_cell("'=1+1"), plain_cell("'tis")
    ('=1+1', "'tis")
    """
    if text.startswith("'") and _RUNS.match(text):
        return text[1:]
    return text
