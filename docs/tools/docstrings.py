"""Docstrings as Markdown: examples become code, and formulas in text are not taken for markup.

mkdocstrings loads this (`extensions` in mkdocs.yml) and shows it each docstring once.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^( *)>>> .*(?:\n(?! *$).*)*", flags=re.MULTILINE)
SECTION = re.compile(r"^[A-Z]\w+\n-{3,}$", flags=re.MULTILINE)


class Examples(griffe.Extension):
    """Puts a fence around every example, wherever it stands in a docstring."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change an object's docstring before it is shown."""
        if obj.docstring is not None:
            obj.docstring.value = readable(obj.docstring.value)


def readable(text: str) -> str:
    """Return a docstring as Markdown that shows what it says.

    >>> print(readable("Adds.\\n\\n>>> 1 + 1\\n2\\n\\nThat is all."))
    Adds.
    <BLANKLINE>
    ```pycon
    >>> 1 + 1
    2
    ```
    <BLANKLINE>
    That is all.
    """
    found = SECTION.search(text)
    if found is None:
        return EXAMPLE.sub(_fence, text)
    before, sections = text[: found.start()], text[found.start() :]
    if not re.search(r"^Examples\n-", sections, flags=re.MULTILINE):
        # Below a section an example has a section of its own, or it would be taken for the first's.
        sections = EXAMPLE.sub(r"Examples\n--------\n\g<0>", sections, count=1)
    return EXAMPLE.sub(_fence, before) + sections


def _fence(found: re.Match[str]) -> str:
    indent = found[1]
    return f"{indent}```pycon\n{found[0]}\n{indent}```"
