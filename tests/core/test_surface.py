"""The public names: each is in the stub once, loads when it is asked for, and not before."""

from __future__ import annotations

import ast
import inspect
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

import pytest

import typica

STUB = Path(typica.__file__).with_suffix(".pyi")


def stub_names() -> list[str]:
    """Return the names that the stub exports; `import X as X` is what makes it an export."""
    names = []
    for statement in ast.parse(STUB.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.ImportFrom):
            assert [alias.asname for alias in statement.names] == [statement.names[0].name]
            names.append(statement.names[0].name)
    return names


def test_the_stub_holds_every_public_name_once():
    names = stub_names()
    assert len(names) == len(set(names)) > 50
    assert sorted(names) == sorted(typica.__all__) == dir(typica)


@pytest.mark.parametrize("name", stub_names())
def test_every_name_loads(name):
    assert getattr(typica, name) is not None


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="Typicality"):
        typica.Typicality  # noqa: B018


def test_the_version_can_be_read_without_python():
    assert f'__version__ = "{typica.__version__}"\n' in Path(typica.__file__).read_text()


def loaded_by(code: str) -> set[str]:
    """Return which heavy packages a fresh Python has loaded after `code`."""
    heavy = {"torch", "pyarrow", "pandas", "matplotlib", "sklearn", "scipy", "numpy"}
    code += f"; import sys; print(*{heavy} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(out.stdout.split())


def test_import_loads_nothing_heavy():
    assert loaded_by("import typica; typica.bench, typica.data, typica.nets") == set()
    # scikit-learn loads pandas, and so pyarrow, where they are installed; we add nothing to that.
    ours = loaded_by("import typica.cli; typica.CTM, typica.load, typica.evaluate")
    assert ours <= loaded_by("import sklearn")


def public_callables(module: ModuleType) -> Iterator[Any]:
    """Yield the functions and classes of a module, and their methods."""
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isclass(value):
            yield value
            yield from filter(inspect.isfunction, vars(value).values())
        elif inspect.isfunction(value):
            yield value


@pytest.mark.parametrize("module", [typica, typica.detectors, typica.decide, typica.calibration])
def test_the_types_of_public_names_are_known_when_they_run(module):
    """What checks types at run time, or documents them, resolves them."""
    found = [get_type_hints(value) for value in public_callables(module)]
    assert len(found) > 10


def test_a_detector_loads_only_what_every_detector_needs():
    code = "from typica import CTM; import sys; print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    later = {
        "safetensors",
        "typica.detectors._bases.scatter",
        "typica.store._file",
    }
    assert later & set(out.stdout.split()) == set()


@pytest.mark.parametrize("before", ["enable", "disable"])
def test_loading_a_name_leaves_the_garbage_collector_as_it_was(before):
    code = (
        f"import gc, typica; gc.{before}(); was = gc.isenabled()\n"
        "typica.CTM, hasattr(typica, 'Spelling')\n"
        "assert gc.isenabled() is was"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "place",
    ["nets.Guard", "nets.FeatureExtractor", "nets.Perturb", "nets.judge_images", "export.to_onnx"],
)
def test_what_needs_an_extra_is_pointed_to(place):
    room, name = place.split(".")
    with pytest.raises(
        AttributeError, match=rf"typica has no {name}; it is typica\.{room}\.{name}"
    ):
        getattr(typica, name)
    assert hasattr(getattr(typica, room), name)


def test_types_find_swapped_and_misspelt_arguments(tmp_path):
    """As a user's mypy sees the package, which carries types."""
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np\n"
        "import typica\n"
        "X, detector = np.zeros((5, 3)), typica.CTM()\n"
        "typica.judge(X, detector)\n"
        "typica.calibrate(detector, X, by_clas=True)\n"
        "fine: typica.Verdict = typica.judge(typica.calibrate(detector, X), X)[0]\n"
    )
    command = [sys.executable, "-m", "mypy", "--follow-imports=silent", str(script)]
    environment = {**os.environ, "MYPYPATH": str(STUB.parents[1])}
    ran = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment
    )
    errors = [line for line in ran.stdout.splitlines() if "error:" in line]
    assert [line.split(":")[1] for line in errors] == ["4", "5"], ran.stdout + ran.stderr
