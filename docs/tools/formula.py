"""Formulas typeset when the site is built: pages need KaTeX's style and fonts, and no script."""

from __future__ import annotations

import html
import json
import re
import subprocess
from functools import cache
from pathlib import Path

from vendored import KATEX

WRITTEN = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


class FormulaError(ValueError):
    """A formula that KaTeX cannot read."""


def typeset(page: str, where: str) -> str:
    """Return a page with its formulas typeset; an error names the page and the formula."""

    def one(found: re.Match[str]) -> str:
        tex = html.unescape(found[2]).strip()
        try:
            made = rendered(tex, found[1] == "div")
        except FormulaError as error:
            raise FormulaError(f"{where}: {error}, in {tex}") from None
        return f'<{found[1]} class="formula">{made}</{found[1]}>'

    return WRITTEN.sub(one, page)


@cache
def rendered(tex: str, display: bool) -> str:
    """Return a formula as HTML."""
    node = _node()
    if node.stdin is None or node.stdout is None:
        raise FormulaError("node has no streams")
    node.stdin.write(json.dumps({"tex": tex, "display": display}) + "\n")
    node.stdin.flush()
    answer = json.loads(node.stdout.readline())
    if "error" in answer:
        raise FormulaError(answer["error"])
    return str(answer["html"])


@cache
def _node() -> subprocess.Popen[str]:
    """Return the process that typesets; it ends with this one, whose pipe it reads."""
    script = Path(__file__).with_name("katex.js")
    command = ["node", str(script), str(KATEX / "katex.js")]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
