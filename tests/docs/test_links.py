"""What pages link to is there: files, figures and headings."""

from __future__ import annotations

import re
import unicodedata

import pytest
from helpers.pages import DOCS, ROOT

GENERATED = {"changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}
PAGES = {path.relative_to(DOCS).as_posix(): path for path in sorted(DOCS.rglob("*.md"))}
LINK = re.compile(r"\]\(([^)\s]+)\)")


def text_of(path):
    """Return a page without its code, in which brackets are no links."""
    text = path.read_text(encoding="utf-8")
    return re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(path):
    """Return the places in a page, as the site names its headings."""
    found = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {slug(re.sub(r"\[([^]]*)\]\([^)]*\)|`", r"\1", heading)) for heading in found}


def slug(heading):
    plain = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name):
    page = PAGES[name]
    for link in LINK.findall(text_of(page)):
        if link.startswith(("http://", "https://")):
            continue
        place, _, anchor = link.partition("#")
        target = page if not place else (page.parent / place).resolve()
        if place and target.parent == DOCS and target.name in GENERATED:
            target = ROOT / GENERATED[target.name]
        assert target.exists(), f"docs/{name} links to {link}"
        if anchor:
            assert anchor in anchors(target), f"docs/{name} links to {link}: no such heading"


def test_headings_are_named_as_the_site_names_them():
    assert slug("With the network: images in") == "with-the-network-images-in"
    assert slug("The bank, format 1") == "the-bank-format-1"
