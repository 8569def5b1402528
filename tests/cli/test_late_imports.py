"""Modules that are put off until they are used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_a_deferred_module_is_whole_once_it_is_used():
    code = """
from typica.cli._late_imports import Deferred, defer
defer("scipy.stats", "pandas", "no_such_module", "json")
import sys, sklearn.base, scipy, json
assert type(sys.modules["scipy.stats"]) is Deferred, "sklearn has loaded it"
assert type(json).__name__ == "module" and "no_such_module" not in sys.modules
import scipy.stats
print(scipy.stats.norm.cdf(0.0), type(scipy.stats).__name__, scipy.stats is sys.modules["scipy.stats"])
from pandas import DataFrame
print(DataFrame({"a": [1, 2]}).a.sum(), type(sys.modules["pandas"]).__name__)
"""
    assert python(code) == "0.5 module True\n3 module\n"


def test_scoring_loads_neither_of_them(tmp_path: Path):
    code = f"""
import os, sys
os.chdir({str(tmp_path)!r})
import numpy as np
rng = np.random.default_rng(0)
np.save("train.npy", rng.random((60, 4)))
from typica.cli import main
for command in (["fit", "train.npy", "-o", "d.safetensors"], ["score", "d.safetensors", "train.npy"]):
    try:
        main(command)
    except SystemExit as end:
        assert not end.code, end.code
print([type(sys.modules[name]).__name__ for name in ("scipy.stats", "pandas")])
"""
    assert python(code).endswith("['Deferred', 'Deferred']\n")
