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
print(scipy.stats.norm.cdf(0.0), type(scipy.stats).__name__, \
scipy.stats is sys.modules["scipy.stats"])
from pandas import DataFrame
print(DataFrame({"a": [1, 2]}).a.sum(), type(sys.modules["pandas"]).__name__)
"""
    assert python(code) == "0.5 module True\n3 module\n"


GATE = """
import sys, threading
sys.path.insert(0, {folder!r})
from typica.cli._late_imports import defer
entered, asked, go = threading.Event(), threading.Event(), threading.Event()
sys.modules["gate"] = sys.modules["__main__"]
runs, found, fails = [], [], []
defer("slow")
import slow
"""

SLOW = """
import sys, gate
gate.runs.append(1)
first = 1
if gate.fails:
    raise RuntimeError(gate.fails.pop())
assert not hasattr(sys.modules[__name__], "absent")
gate.entered.set()
gate.go.wait()
last = 2
"""


def test_a_second_thread_waits_for_the_whole_module(tmp_path: Path):
    (tmp_path / "slow.py").write_text(SLOW)
    code = (
        GATE
        + """
def ask():
    asked.set()
    found.append(getattr(slow, "last", "missing"))
one, other = threading.Thread(target=ask), threading.Thread(target=ask)
one.start()
entered.wait()
asked.clear()
other.start()
asked.wait()
other.join(0.2)  # in which it would find that there is nothing
go.set()
one.join()
other.join()
print(found, len(runs), type(slow).__name__)
"""
    )
    assert python(code.replace("{folder!r}", repr(str(tmp_path)))) == "[2, 2] 1 module\n"


def test_a_module_that_fails_is_tried_again(tmp_path: Path):
    (tmp_path / "slow.py").write_text(SLOW)
    code = (
        GATE
        + """
go.set()
fails.append("no memory")
for name in ("last", "first"):
    try:
        print(getattr(slow, name))
    except RuntimeError as error:
        print(error)
print(slow.last, len(runs))
"""
    )
    expected = "no memory\n1\n2 2\n"
    assert python(code.replace("{folder!r}", repr(str(tmp_path)))) == expected


def test_two_threads_that_need_each_others_module_do_not_hang(tmp_path: Path):
    (tmp_path / "slow.py").write_text(
        "import gate\nfirst = 1\ngate.entered.set()\ngate.go.wait()\nimport other\nlast = 2\n"
    )
    (tmp_path / "other.py").write_text(
        "import gate, slow, time\ngate.go.set()\ntime.sleep(0.3)\n"
        "seen = [slow.first, getattr(slow, 'last', 'not yet')]\n"
    )
    code = (
        GATE
        + """
import os
one = threading.Thread(target=lambda: found.append(slow.last), daemon=True)
def load():
    import other
    found.append(other.seen)
two = threading.Thread(target=load, daemon=True)
one.start()
entered.wait()
two.start()
one.join(10)
two.join(10)
print(sorted(map(str, found)), slow.last, type(slow).__name__, flush=True)
os._exit(0)
"""
    )
    found = python(code.replace("{folder!r}", repr(str(tmp_path))))
    assert found == "['2', \"[1, 'not yet']\"] 2 module\n"


def test_scoring_loads_neither_of_them(tmp_path: Path):
    code = f"""
import os, sys
os.chdir({str(tmp_path)!r})
import numpy as np
rng = np.random.default_rng(0)
np.save("train.npy", rng.random((60, 4)))
from typica.cli import main
for command in (["fit", "train.npy", "-o", "d.safetensors"], \
["score", "d.safetensors", "train.npy"]):
    try:
        main(command)
    except SystemExit as end:
        assert not end.code, end.code
print([type(sys.modules[name]).__name__ for name in ("scipy.stats", "pandas")])
"""
    assert python(code).endswith("['Deferred', 'Deferred']\n")
