"""The navigation: what mkdocs.yml says, with the pages that are generated or new put in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Nav = list[Any]


def complete(nav: Nav, docs: Path, api: list[str]) -> Nav:
    """Return the navigation with every page that is there."""
    sections = {title: list(pages or []) for title, pages in map(_item, nav)}
    sections["API"] += api
    overview, *commands = _pages(docs, "cli")
    sections["Command line"] += [overview, *(_titled(docs, name) for name in commands)]
    sections["Methods"] += _methods(docs)
    sections["Changelog"] += ["changelog.md", {"Contributing": "contributing.md"}]
    named = set(_named(list(sections.values())))
    new = []
    for folder in (".", "guides", "tutorials", "moving"):
        new += [name for name in _pages(docs, folder) if name not in named]
    sections["Guides"] += [_titled(docs, name) for name in new]
    return [{title: pages} for title, pages in sections.items() if pages]


def from_docs(text: str) -> str:
    """Return a text of the project's root with its links as they are seen from docs/."""
    return re.sub(r"\]\(docs/", "](", text)


def _methods(docs: Path) -> Nav:
    """Return the methods' pages in the groups that their overview has."""
    groups: dict[str, Nav] = {}
    for name in _pages(docs, "methods"):
        text = (docs / name).read_text(encoding="utf-8")
        found = re.search(r"^<!-- group: (.*) -->$", text, re.MULTILINE)
        pages = groups.setdefault(found[1] if found else "Detectors", [])
        pages.append(_titled(docs, name))
    return [{title: pages} for title, pages in sorted(groups.items())]


def _pages(docs: Path, folder: str) -> list[str]:
    """Return the pages of a folder, its index first."""
    found = sorted(docs.joinpath(folder).glob("*.md"), key=_index_first)
    return [path.relative_to(docs).as_posix() for path in found]


def _titled(docs: Path, name: str) -> dict[str, str]:
    """Return a page with its heading as title: mkdocs does not find it below a comment."""
    text = (docs / name).read_text(encoding="utf-8")
    found = re.search(r"^# (.+)$", text, re.MULTILINE)
    return {found[1] if found else name: name}


def _index_first(path: Path) -> tuple[bool, str]:
    return path.stem != "index", path.stem


def _item(entry: Any) -> tuple[str, Any]:
    ((title, pages),) = entry.items()
    return title, pages


def _named(pages: Nav) -> Iterator[str]:
    """Yield the files that a navigation names."""
    for entry in pages:
        if isinstance(entry, str):
            yield entry
        elif isinstance(entry, dict):
            yield from _named(list(entry.values()))
        else:
            yield from _named(entry)
