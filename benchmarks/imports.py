"""What `import typica` and `typica --version` cost against the imports they cannot do without."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from timing import ratio

SHELL = Path(sys.executable).parent / "typica"
REPEATS = 10


def python(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True)


def version() -> None:
    subprocess.run([SHELL, "--version"], check=True, stdout=subprocess.DEVNULL)


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
    plain, _, _ = ratio(lambda: python("import typica"), lambda: python("import sklearn"))
    ready, _, _ = ratio(lambda: python("from typica import CTM"), lambda: python("import sklearn"))
    shell = best_ratio(version, lambda: python("import typer"))
    return [
        ("import typica / import sklearn", plain, 1.1, "at most"),
        ("from typica import CTM / import sklearn", ready, 1.25, "at most"),
        ("typica --version / import typer, best of 10", shell, 2.0, "at most"),
    ]
