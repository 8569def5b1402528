"""The site's reference is complete: every public name and command, every page in the navigation."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import api
import make_cli
import navigation
import pytest
from helpers.pages import DOCS
from typer.main import get_command

import typica
from typica.cli._app import COMMANDS, load_command

ROOT = DOCS.parent
SRC = Path(typica.__file__).parent


# The API


def stubs() -> list[Path]:
    """Return the stubs of the public packages, that of `typica` itself among them."""
    found = sorted(SRC.rglob("__init__.pyi"))
    return [
        path
        for path in found
        if not any(part.startswith("_") and part != path.name for part in path.parts)
    ]


def exported(stub: Path) -> list[str]:
    """Return the names that a stub exports: of `__all__`, or imported under their own name."""
    names = []
    for node in ast.parse(stub.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign):
            return list(ast.literal_eval(node.value))
        if isinstance(node, ast.ImportFrom):
            names += [alias.name for alias in node.names if alias.asname == alias.name]
    return names


def described() -> dict[str, str]:
    """Return the page on which each name is described, by its path."""
    found = {}
    for page, text in api.pages().items():
        for path in re.findall(r"^::: (\S+)$", text, flags=re.MULTILINE):
            assert path not in found, f"{path} is described twice"
            found[path] = page
    return found


@pytest.mark.parametrize("stub", stubs(), ids=lambda path: path.parent.name)
def test_every_public_name_is_described_once(stub):
    package = ".".join(["typica", *stub.parent.relative_to(SRC).parts])
    everything = described()
    homes = {f"typica.{place}": f"typica.{name}" for name, place in api.hall_names().items()}
    pages = {f"typica.{room}" for room in api.rooms()}
    missing = []
    for name in exported(stub):
        path = f"{package}.{name}"
        room = package.removeprefix("typica").lstrip(".")
        home = ".".join(filter(None, ("typica", *api._home(room, name)))) if room else path
        if not {path, homes.get(home, path)} & (everything.keys() | pages):
            missing.append(path)
    assert missing == [], "add their package to PAGES in docs/tools/api.py"


def test_the_index_of_the_api_has_every_name():
    index = api.pages()["api/index.md"]
    assert all(f"[{path}]" in index for path in described())


def test_what_is_described_is_there():
    optional = ("typica.serve", "typica.mlflow", "typica.scale")  # need what is not installed here
    for path in described():
        if path.startswith(optional):
            continue
        value = typica
        for part in path.split(".")[1:]:
            value = getattr(value, part, None) or __import__(
                f"{value.__name__}.{part}", fromlist=[part]
            )
        assert value is not None


# The command line


def test_the_pages_of_the_commands_are_current():
    pages = make_cli.pages()
    written = {path.relative_to(DOCS).as_posix() for path in (DOCS / "cli").glob("*.md")}
    assert written == set(pages), "run: python docs/make_cli.py"
    for name, text in pages.items():
        current = (DOCS / name).read_text(encoding="utf-8") == text
        assert current, f"{name} is out of date; run: python docs/make_cli.py"


def inner(name):
    command = load_command(name)
    return list(getattr(command, "commands", {"": command}).values())


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_of_a_command_has_what_typer_knows_of_it(name):
    page = make_cli.pages()[f"cli/{name}.md"]
    for command in inner(name):
        for param in command.params:
            if getattr(param, "hidden", False) or param.name == "help":
                continue
            if param.param_type_name == "option":
                assert all(f"`{opt}`" in page for opt in (*param.opts, *param.secondary_opts))
            assert " ".join((param.help or "").split()).replace("|", "\\|") in page
        example = " ".join((command.epilog or "").split()).removeprefix("Example: ")
        assert example and f"```text\n{example}\n```" in page


def test_the_index_of_the_commands_has_them_all():
    from typica.cli._app import app

    index = make_cli.pages()["cli/index.md"]
    assert all(f"[`{name}`]({name}.md)" in index for name in get_command(app).commands)


# The navigation


def test_every_page_is_in_the_navigation():
    nav = [{"Start": ["index.md"]}, {"Guides": None}, {"Methods": []}, {"API": []}]
    nav += [{"Command line": []}, {"Changelog": []}]
    complete = navigation.complete(nav, DOCS, ["api/index.md"])
    named = list(navigation._named(complete))
    assert len(named) == len(set(named))
    for folder in (".", "guides", "tutorials", "moving", "methods", "cli"):
        for path in (DOCS / folder).glob("*.md"):
            assert path.relative_to(DOCS).as_posix() in named


def test_links_of_the_root_are_seen_from_the_docs():
    assert navigation.from_docs("[a](docs/b.md#c), [d](e.md)") == "[a](b.md#c), [d](e.md)"
