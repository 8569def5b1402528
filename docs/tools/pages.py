"""Run the code of a page as a reader would: block after block, in an empty folder.

Blocks of `python` are run in one namespace, and show what they print and, as in a notebook, the
value of a last line that is an expression. Of a block of `sh` the lines that begin with `typica`
are run. A block of `text` right below one that runs is its output.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FENCE = re.compile(r"^```([\w-]*)[^\n]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?%?")
WIDTH = 100  # of the terminal that outputs were written for


@dataclass
class Block:
    """A piece of code on a page, where it stands, and what is printed below it."""

    language: str
    code: str
    line: int
    end: int
    output: str | None = None
    output_span: tuple[int, int] = (0, 0)


def read(text: str) -> list[Block]:
    """Return the blocks of a page in their order.

    >>> [block.output for block in read("```python\\n1 + 1\\n```\\n\\n```text\\n2\\n```\\n")]
    ['2\\n']
    """
    blocks: list[Block] = []
    for found in FENCE.finditer(text):
        between = text[blocks[-1].end : found.start()] if blocks else "."
        below = found[1] == "text" and not between.strip()
        if below and blocks[-1].language in ("python", "sh") and blocks[-1].output is None:
            blocks[-1].output = found[2]
            blocks[-1].output_span = found.span()
            continue
        line = text.count("\n", 0, found.start()) + 2
        blocks.append(Block(found[1], found[2], line, found.end()))
    return blocks


class Reader:
    """Someone who copies block after block; what is defined stays."""

    def __init__(self, page: str = "page") -> None:
        self.page = page
        self.names: dict[str, Any] = {"__name__": "__main__"}

    def run(self, block: Block) -> str:
        """Run a block and return what it shows."""
        if block.language == "python":
            return self._python(block)
        if block.language == "sh":
            return "".join(self._shell(line) for line in commands(block.code))
        return ""

    def _python(self, block: Block) -> str:
        # Lines of errors are those of the page.
        tree = ast.parse("\n" * (block.line - 1) + block.code, self.page)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            exec(compile(tree, self.page, "exec"), self.names)
            if last is not None:
                value = eval(compile(ast.Expression(last.value), self.page, "eval"), self.names)
                if value is not None:
                    print(repr(value))
        return shown.getvalue()

    def _shell(self, command: str) -> str:
        if "|" in command or "<" in command or ">" in command:
            return _piped(command)
        return _typica(shlex.split(command)[1:])


def commands(code: str) -> Iterator[str]:
    """Yield the commands of a block that are ours; lines that end in a backslash go on."""
    for line in code.replace("\\\n", " ").splitlines():
        if line.startswith("typica "):
            yield " ".join(line.split(" #")[0].split()) if "'" not in line else line


def _typica(arguments: list[str]) -> str:
    """Run a command in this process."""
    from typica.cli import main  # noqa: PLC0415

    shown = io.StringIO()
    code: Any = 0
    with contextlib.redirect_stdout(shown), _terminal():
        try:
            main(arguments)
        except SystemExit as end:
            code = end.code
    if code not in (0, None):
        raise RuntimeError(f"typica {shlex.join(arguments)}: ended with exit code {code}")
    return shown.getvalue()


def _piped(command: str) -> str:
    """Run a line of the shell; `monitor` may end with its alarm."""
    environment = {**os.environ, "COLUMNS": str(WIDTH)}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(
        command, shell=True, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 3):
        raise RuntimeError(f"{command}: ended with exit code {done.returncode}: {done.stderr}")
    return done.stdout


@contextlib.contextmanager
def _terminal() -> Iterator[None]:
    """Let commands print for a terminal of one width."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(WIDTH)
    try:
        yield
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before


def differences(printed: str, shown: str, tolerance: float = 0.05) -> str:
    """Return how an output differs from the one on the page; nothing where it is the same.

    Numbers may differ by a share, as another processor rounds otherwise; words may not.

    >>> differences("AUROC 0.912", "AUROC 0.915"), differences("a b", "a  b")
    ('', '')
    >>> differences("typical", "atypical")
    "'typical' is printed where the page has 'atypical'"
    """
    ours, theirs = _words(printed), _words(shown)
    for got, wanted in zip(ours, theirs, strict=False):
        if got != wanted and not _close(got, wanted, tolerance):
            return f"{got!r} is printed where the page has {wanted!r}"
    if len(ours) != len(theirs):
        return f"{len(ours)} words are printed where the page has {len(theirs)}"
    return ""


def _words(text: str) -> list[str]:
    """Return words and numbers; lines of tables, as wide as their numbers, are left out."""
    kept = re.sub(r"[─━│┃┏┓┗┛┡┩└┘├┤┬┴┼╇╈═-]{2,}|[│┃]", " ", text)
    return re.findall(rf"{NUMBER.pattern}|[^\s\d]+", kept)


def _close(got: str, wanted: str, tolerance: float) -> bool:
    if not (NUMBER.fullmatch(got) and NUMBER.fullmatch(wanted)):
        return False
    a, b = (float(text.rstrip("%").replace(",", "")) for text in (got, wanted))
    return abs(a - b) <= tolerance * max(abs(a), abs(b), 1e-3)


def rewritten(text: str, blocks: list[Block], outputs: list[str]) -> str:
    """Return a page with new outputs in place of the old ones."""
    for block, output in reversed(list(zip(blocks, outputs, strict=True))):
        if block.output is not None:
            start, end = block.output_span
            text = f"{text[:start]}```text\n{output.rstrip()}\n```{text[end:]}"
    return text
