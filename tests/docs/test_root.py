"""The files that tell others of the project say what is so."""

from __future__ import annotations

import re
import tomllib

import pytest
from helpers.pages import DOCS, ROOT

import typica

LINK = re.compile(r"\]\(([^)#\s]+)")


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["llms.txt", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"])
def test_links_lead_somewhere(name):
    places = [place for place in LINK.findall(text(name)) if not place.startswith("http")]
    assert [place for place in places if not (ROOT / place).exists()] == []


def test_llms_txt_names_every_page_that_people_wrote():
    linked = set(LINK.findall(text("llms.txt")))
    pages = [path for path in DOCS.rglob("*.md") if path.parent.name not in ("methods", "cli")]
    written = {f"docs/{path.relative_to(DOCS).as_posix()}" for path in pages}
    missing = written - linked - {"docs/index.md"}
    assert not missing, f"llms.txt does not tell of {', '.join(sorted(missing))}"


def test_llms_txt_has_the_form_that_readers_expect():
    lines = text("llms.txt").splitlines()
    assert lines[0] == "# Typica" and lines[2].startswith("> ")
    for code in re.findall(r"typica\.([A-Za-z_]\w*)", text("llms.txt")):
        assert hasattr(typica, code), code


def test_llms_txt_has_every_extra():
    extras = tomllib.loads(text("pyproject.toml"))["project"]["optional-dependencies"]
    said = re.search(r"extras: ([^)]*)\)", text("llms.txt"))[1]
    assert set(re.split(r",\s*", said)) == set(extras)


def test_the_citation_is_of_this_version():
    citation = text("CITATION.cff")
    assert f"\nversion: {typica.__version__}\n" in citation
    assert f"\nlicense: {tomllib.loads(text('pyproject.toml'))['project']['license']}\n" in citation


def test_contributing_names_targets_and_scripts_that_are_there():
    said = text("CONTRIBUTING.md")
    targets = set(re.findall(r"`make ([a-z-]+)`", said))
    made = set(re.findall(r"^([a-z-]+):", text("Makefile"), flags=re.MULTILINE))
    assert targets <= made
    scripts = set(re.findall(r"python (docs/\w+\.py)", said))
    assert len(scripts) >= 4 and all((ROOT / script).exists() for script in scripts)
