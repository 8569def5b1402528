"""Figures inside the page, where they take its colours, in place of images that cannot."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

IMAGE = re.compile(r'<img\b[^>]*?\bsrc="([^"]*figures/[^"]*\.svg)"[^>]*>')
STYLE = re.compile(r"<style>.*?</style>\s*", re.DOTALL)
WIDE = 480  # pixels above which a figure is moved sideways on a phone, not made illegible


def inline(page: str, docs: Path, where: str) -> str:
    """Return a page with the figures of docs/figures in place of links to them.

    The colours that a figure brings for readers outside the site are left out: those of the page,
    in docs/assets/typica.css, are the same and follow its switch.
    """

    def one(found: re.Match[str]) -> str:
        name = posixpath.normpath(posixpath.join(posixpath.dirname(where), found[1]))
        text = (docs / name).read_text(encoding="utf-8")
        alt = re.search(r'\balt="([^"]*)"', found[0])
        label = f' role="img" aria-label="{alt[1]}"' if alt else ""
        drawn = STYLE.sub("", text).strip()
        shown = drawn.replace("<svg ", f'<svg class="figure"{label} ', 1)
        width = re.search(r'\bwidth="(\d+)', drawn)
        if width and int(width[1]) > WIDE:
            style = f"--natural: {width[1]}px"
            return f'<span class="wide-figure" style="{style}" tabindex="0">{shown}</span>'
        return shown

    return IMAGE.sub(one, page)
