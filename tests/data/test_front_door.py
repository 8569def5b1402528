"""What `typica.data` shows to the world, and what it costs to open the door."""

from __future__ import annotations

import subprocess
import sys

import pytest

import typica.bank
import typica.data
import typica.data.sets

HEAVY = ("torch", "pyarrow", "scipy", "sklearn", "PIL", "numpy", "typica.bank", "urllib.request")


@pytest.mark.parametrize(
    "statement", ["import typica.data", "from typica.data.sets import find_set, list_sets"]
)
def test_the_door_opens_at_no_cost(statement):
    code = f"import sys; {statement}; print(sorted(set(sys.argv[1:]) & set(sys.modules)))"
    found = subprocess.run(
        [sys.executable, "-c", code, *HEAVY], capture_output=True, text=True, check=True
    )
    assert found.stdout == "[]\n"


@pytest.mark.parametrize("package", [typica.data, typica.data.sets, typica.bank])
def test_every_name_is_there(package):
    for name in package.__all__:
        assert getattr(package, name) is not None
        assert name in dir(package)


def test_names_are_functions_not_modules():
    for name in ("decode", "unpack", "open_images", "read_features", "read_labels", "read_head"):
        assert callable(getattr(typica.data, name))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="absent"):
        _ = typica.data.absent
