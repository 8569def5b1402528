"""The public names: each is in the stub once, loads when it is asked for, and not before."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

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


@pytest.mark.parametrize("name", ["Guard", "FeatureExtractor", "Perturb"])
def test_what_needs_torch_is_pointed_to(name):
    with pytest.raises(AttributeError, match=rf"typica has no {name}; it is typica\.nets\.{name}"):
        getattr(typica, name)
    assert hasattr(typica.nets, name)
