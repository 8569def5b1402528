"""The order of the house: each floor uses only those above it, and goes in by the front door."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import typica

SRC = Path(typica.__file__).parent
MAP = Path(__file__).parents[2] / "CONTRIBUTING.md"
FLOORS = [  # from the top
    "as_json bombs cards checks errors extras files kinds machine plugins progress spreadsheets "
    "threads warning_filters written_numbers",
    "arrays cosines keys largest linalg",
    "store",
    "labels sums",
    "head moments metrics explanation calibration origin verdicts fdr combine groups",
    "remembered tags",
    "estimator registry",
    "detectors",
    "rectify",
    "decide testing",
    "mlflow",
    "bank",
    "data",
    "nets",
    "export",
    "scale",
    "bench",
    "serve",
    "cli",
]
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms.split()}


def used(tree: ast.AST) -> Iterator[list[str]]:
    """Yield what code uses of Typica, late imports included; what only types need is left out."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        found = []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "an import says its whole path"
            found = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "typica":
            found = [f"typica.{node.attr}"]
        yield from (name.split(".")[1:] for name in found if name.startswith("typica."))
        yield from used(node)


def doors() -> Iterator[tuple[list[str], list[str]]]:
    """Yield each module's place in the house and each place that it goes to."""
    for path in sorted(SRC.rglob("*.py")):
        place = [part for part in path.relative_to(SRC).with_suffix("").parts if part != "__init__"]
        for to in used(ast.parse(path.read_text(encoding="utf-8"))):
            yield place, to


def test_every_room_has_its_floor():
    rooms = {path.stem for path in SRC.glob("[a-z]*") if path.suffix == ".py" or path.is_dir()}
    assert rooms == set(FLOOR)


def test_the_map_shows_every_room_on_its_floor():
    rows = re.findall(
        r"^\| (\d*) ?\| (`[a-z_` ]+`) \|", MAP.read_text(encoding="utf-8"), re.MULTILINE
    )
    shown, floor = {}, 0
    for number, rooms in rows:
        floor = int(number or floor)
        shown |= dict.fromkeys(re.findall(r"\w+", rooms), floor - 1)
    assert shown == FLOOR


def test_each_floor_uses_only_the_floors_above():
    for place, to in doors():
        if to[0] in FLOOR:
            assert FLOOR[to[0]] <= FLOOR[place[0]], (place, to)
        else:  # a name in the hall, which leads to any floor
            assert to == ["__version__"] or place[0] == "cli", (place, to)


def test_there_is_no_cycle_between_rooms():
    uses = {room: set() for room in FLOOR}
    for place, to in doors():
        uses[place[0]] |= {to[0]} - {place[0]}
    while free := [room for room, others in uses.items() if not others & uses.keys()]:
        for room in free:
            del uses[room]
    assert uses == {}


def test_nobody_enters_a_private_module_of_another_package():
    for place, to in doors():
        for depth, part in enumerate(to):
            if part.startswith("_") and not part.startswith("__"):
                assert place[:depth] == to[:depth], (place, to)


def raised(path: Path) -> Iterator[str]:
    """Yield the statements of a module that raise."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Raise):
            yield f"{path.name}:{node.lineno} {ast.unparse(node)}"


def test_only_the_shell_speaks_of_its_options():
    """Messages name an argument by `typica.errors.argument`; whole commands may be quoted."""
    option = re.compile(r"(?<![\w`-])--[a-z]")
    found = []
    for path in sorted(SRC.rglob("*.py")):
        if "cli" not in path.relative_to(SRC).parts:
            found += [text for text in raised(path) if option.search(text)]
    assert [text for text in found if "`typica " not in text] == []


def test_late_imports_count_and_imports_for_types_do_not():
    late = "def f():\n  from typica.cli import score\n  import typica\n  typica.CTM"
    assert list(used(ast.parse(late))) == [["cli", "score"], ["CTM"]]
    assert not list(used(ast.parse("if TYPE_CHECKING:\n  from typica.cli import score")))
