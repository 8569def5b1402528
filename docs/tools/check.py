"""Check a site that was built: every public name is in it, and no page asks elsewhere.

python docs/tools/check.py site
"""

from __future__ import annotations

import re
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import api

FEWEST = 60  # pages
SHOWN = 20  # problems
# What makes a browser fetch: a link that is clicked does not.
FETCHING = re.compile(
    r"<(?:script|img|iframe|source|video|audio|embed|object)\b[^>]*?"
    r"\b(?:src|data)=[\"']?(?:https?:)?//[^\"' >]+"
    r"|<link\b(?=[^>]*rel=[\"']?"
    r"(?:stylesheet|icon|preload|preconnect|dns-prefetch|manifest|modulepreload))"
    r"[^>]*?\bhref=[\"']?(?:https?:)?//[^\"' >]+"
    r"|@import\s+(?:url\()?[\"']?(?:https?:)?//[^\"')]+"
    r"|url\([\"']?(?:https?:)?//[^\"')]+",
    re.IGNORECASE,
)


def main(folder: str) -> None:
    """Print what was found; end with an error where something is amiss."""
    site = Path(folder)
    pages = sorted(site.rglob("*.html"))
    problems = [*too_few(pages), *absent(site), *elsewhere(site), *untypeset(pages)]
    for problem in problems[:SHOWN]:
        print(problem, file=sys.stderr)
    if problems:
        sys.exit(f"{folder}: {len(problems)} problems")
    print(f"{folder}: {len(pages)} pages, every public name, no request to elsewhere")


def too_few(pages: list[Path]) -> Iterator[str]:
    """Yield a complaint where pages are missing."""
    if len(pages) < FEWEST:
        yield f"{len(pages)} pages; at least {FEWEST} were expected"


def absent(site: Path) -> Iterator[str]:
    """Yield the public names that the inventory of the API lacks."""
    known = inventory(site / "objects.inv")
    for room in api.rooms():
        for name in api.names(room):
            if name.path not in known:
                yield f"{name.path}: not described"


def inventory(path: Path) -> set[str]:
    """Return the names in an inventory of Sphinx's format, version 2."""
    data = path.read_bytes()
    start = 0
    for _ in range(4):  # lines of a header, and then what is packed
        start = data.index(b"\n", start) + 1
    lines = zlib.decompress(data[start:]).decode().splitlines()
    return {line.split(" ")[0] for line in lines}


def elsewhere(site: Path) -> Iterator[str]:
    """Yield what pages and styles would fetch from other hosts."""
    for path in sorted([*site.rglob("*.html"), *site.rglob("*.css")]):
        for found in FETCHING.finditer(path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(site)}: fetches {found[0][-80:]}"


def untypeset(pages: list[Path]) -> Iterator[str]:
    """Yield the pages with formulas that are still LaTeX."""
    for path in pages:
        if 'class="arithmatex"' in path.read_text(encoding="utf-8"):
            yield f"{path}: a formula is not typeset"


if __name__ == "__main__":
    main(sys.argv[1])
