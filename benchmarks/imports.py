"""What `import typica` and `typica --version` cost against the imports they cannot do without.

All have bytecode, as pip installs it. An import is timed at several depths of the stack: CPython
3.11 keeps frames in chunks, and functions of SciPy that are called at the edge of one make the very
same import up to a fifth slower.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter

SHELL = Path(sys.executable).parent / "typica"
REPEATS = 10
DEPTHS = range(0, 72, 3)
REPEATS_AT_DEPTH = 2
AT_DEPTH = """
def at(depth):
    if depth:
        return at(depth - 1)
    {code}
at({depth})
"""


def python(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True)


def version() -> None:
    subprocess.run([SHELL, "--version"], check=True, stdout=subprocess.DEVNULL)


def ratio_of_imports(ours: str, theirs: str) -> float:
    """Return the ratio of the best times of two statements, over all depths."""
    spent = [0.0, 0.0]
    for depth in DEPTHS:
        calls = [
            partial(python, AT_DEPTH.format(code=code, depth=depth)) for code in (ours, theirs)
        ]
        rounds = [[seconds(call) for call in calls] for _ in range(REPEATS_AT_DEPTH)]
        spent = [
            so_far + min(times)
            for so_far, times in zip(spent, zip(*rounds, strict=True), strict=True)
        ]
    return spent[0] / spent[1]


def best_ratio(ours: Callable[[], None], theirs: Callable[[], None]) -> float:
    """Return the ratio of the best times: what each costs when nothing else is in the way."""
    pairs = [(seconds(ours), seconds(theirs)) for _ in range(REPEATS)]
    ours_best, theirs_best = map(min, zip(*pairs, strict=True))
    return ours_best / theirs_best


def seconds(call: Callable[[], None]) -> float:
    began = perf_counter()
    call()
    return perf_counter() - began


def run() -> list[tuple[str, float, float, str]]:
    before = dict(os.environ)
    with tempfile.TemporaryDirectory() as bytecode:
        os.environ["PYTHONPYCACHEPREFIX"] = bytecode
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        try:
            return measured()
        finally:
            os.environ.clear()
            os.environ.update(before)


def measured() -> list[tuple[str, float, float, str]]:
    plain = ratio_of_imports("import typica", "import sklearn")
    ready = ratio_of_imports("from typica import CTM", "import sklearn")
    shell = best_ratio(version, lambda: python("import typer"))
    return [
        ("import typica / import sklearn", plain, 1.1, "at most"),
        ("from typica import CTM / import sklearn", ready, 1.25, "at most"),
        ("typica --version / import typer, best of 10", shell, 2.0, "at most"),
    ]
