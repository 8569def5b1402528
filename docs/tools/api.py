"""The pages of the API: which names are public, and where each is described.

The public names are those of `typica/__init__.pyi`, of the packages' stubs and `__all__`, and what
the modules among PAGES define. They are read and not imported: that would need every extra.
mkdocstrings makes the text, from the docstrings.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

SRC = Path(__file__).parents[2] / "src" / "typica"
# Packages and modules, each a page, in the order of the navigation.
PAGES = {
    "detectors": "Detectors",
    "rectify": "Rectifiers",
    "decide": "Decisions",
    "calibration": "Calibration",
    "verdicts": "Verdicts",
    "explanation": "Explanations",
    "metrics": "Metrics",
    "combine": "Combined p-values",
    "fdr": "False discovery rates",
    "head": "Head",
    "moments": "Moments",
    "origin": "Origin",
    "store": "Files of detectors",
    "bank": "Banks",
    "data": "Data",
    "data.sets": "Benchmark sets",
    "data.corrupt": "Corruptions",
    "nets": "Networks",
    "nets.zoo": "Zoo",
    "export": "ONNX export",
    "serve": "Server",
    "scale": "Tables",
    "scale.dask": "Dask",
    "scale.ray": "Ray",
    "scale.spark": "Spark",
    "mlflow": "MLflow",
    "bench": "Benchmarks",
    "bench.digits": "The suite digits",
    "bench.published": "The paper's numbers",
    "progress": "Progress",
    "errors": "Errors",
    "testing": "Checks for your own detectors",
}


class Name(NamedTuple):
    """A public name: where it is asked for, and the first line of what is said of it."""

    path: str
    summary: str

    @property
    def link(self) -> str:
        """The name as a link to its description."""
        return f"[`{self.path.removeprefix('typica.')}`][{self.path}]"


@cache
def pages() -> dict[str, str]:
    """Return the pages of the API as Markdown, by their file's name."""
    found = {room: names(room) for room in rooms()}
    made = {"api/index.md": _index(found)}
    for room, public in found.items():
        made[f"api/{room}.md"] = _page(room, public)
    return made


def rooms() -> list[str]:
    """Return the packages and modules that are here, in the order of the navigation."""
    return [room for room in PAGES if _file(room).exists()]


def names(room: str) -> list[Name]:
    """Return the public names of a package or module, in its own order."""
    hall = {home: name for name, home in hall_names().items()}
    found = []
    for name in _exported(room):
        if f"typica.{room}.{name}".removeprefix("typica.") in PAGES:
            continue  # a module with a page of its own
        home, inner = _home(room, name)
        path = f"typica.{hall.get(f'{home}.{inner}', f'{room}.{name}')}"
        found.append(Name(path, _summary(home, inner)))
    return sorted(found, key=_prominence)


def _prominence(name: Name) -> tuple[bool, bool, bool]:
    """Sort a contract before what keeps it, names of `typica` before the rest."""
    return name.path not in _WITH_INHERITED, name.path.count(".") > 1


@cache
def hall_names() -> dict[str, str]:
    """Return the names of `typica` itself with the place of each: CTM, detectors.ctm.CTM."""
    places = {}
    for name, module in _imported(SRC / "__init__.pyi"):
        home, inner = _home(module, name) if module else ("", name)
        places[name] = f"{home}.{inner}" if home else inner
    return places


def _index(found: dict[str, list[Name]]) -> str:
    lines = ["# API", "", _INDEX]
    for room, public in found.items():
        lines += ["", f"## [{PAGES[room]}]({room}.md)", "", "| name | |", "|---|---|"]
        lines += [f"| {name.link} | {_cell(name.summary)} |" for name in public]
    return "\n".join(lines) + "\n"


_INDEX = """\
Every public name, from its docstring; what does not stand here is private. Names without a package
are those of `typica` itself: `CTM` is `typica.CTM`. Each description ends with the source."""


def _page(room: str, public: list[Name]) -> str:
    lines = [f"# {PAGES[room]}", "", f"`typica.{room}`", "", _docstring(_file(room))]
    for name in public:
        lines += ["", f"::: {name.path}"]
        if name.path in _WITH_INHERITED:
            lines += ["    options:", "      inherited_members: true"]
    return "\n".join(lines) + "\n"


_WITH_INHERITED = {"typica.Detector", "typica.Rectifier"}  # the contracts, told once


def _exported(room: str) -> list[str]:
    """Return the names that a package or module offers."""
    stub = _file(room).with_suffix(".pyi")
    for path in (stub, _file(room)):
        listed = _all(path) if path.exists() else []
        if listed:
            order = list(dict(_imported(path))) or listed
            return [name for name in order if name in listed] + sorted(set(listed) - set(order))
    return [name for name in _defined(_file(room)) if not name.startswith("_")]


def _home(room: str, name: str) -> tuple[str, str]:
    """Return the module that defines a name, and its name there."""
    for path in (_file(room).with_suffix(".pyi"), _file(room)):
        if not path.exists():
            continue
        imported = dict(_imported(path))
        if name in imported:
            module = imported[name]
            inside = ".".join(filter(None, (room, module))) if path.suffix == ".pyi" else module
            return _home(inside, name) if inside != room else (room, name)
    return room, name


def _imported(path: Path) -> Iterator[tuple[str, str]]:
    """Yield what a file imports of Typica: the name, and the module below its package."""
    for node in _tree(path).body:
        if not isinstance(node, ast.ImportFrom):
            continue
        own = node.level > 0 or (node.module or "").startswith("typica")
        if own:
            module = re.sub(r"^typica\.?", "", node.module or "")
            yield from ((alias.asname or alias.name, module) for alias in node.names)


def _all(path: Path) -> list[str]:
    for node in _tree(path).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            try:
                return list(ast.literal_eval(node.value))
            except ValueError:
                return []
    return []


def _defined(path: Path) -> Iterator[str]:
    """Yield the names that a module defines, in their order."""
    for node in _tree(path).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def _summary(room: str, name: str) -> str:
    """Return the first sentence of a name's docstring; nothing for a constant."""
    path = _file(f"{room}.{name}" if _file(f"{room}.{name}").exists() else room)
    tree = _tree(path)
    if path == _file(f"{room}.{name}"):
        return _first(ast.get_docstring(tree))
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return _first(ast.get_docstring(node))
    return ""


def _first(text: str | None) -> str:
    """Return the first paragraph of a docstring as one line."""
    return " ".join((text or "").strip().split("\n\n")[0].split())


def _docstring(path: Path) -> str:
    return ast.get_docstring(_tree(path)) or ""


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _file(room: str) -> Path:
    """Return the file of a package or module."""
    place = SRC.joinpath(*room.split(".")) if room else SRC
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
