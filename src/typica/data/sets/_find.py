"""The benchmark sets: their names, and where they are on this machine."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from typica.data.sets._table import SETS, BenchmarkSet
from typica.errors import InputError, border, closest
from typica.files import home


def _root(root: str | os.PathLike[str] | None) -> Path:
    return home() if root is None else Path(root)


def list_sets() -> list[str]:
    """Return the names of the benchmark sets.

    >>> list_sets()[:3]
    ['cifar10', 'cifar100', 'svhn']
    """
    return list(SETS)


@border
def benchmark_set(name: str) -> BenchmarkSet:
    """Find a benchmark set by its name, and return what is known of it.

    >>> benchmark_set("isun").images
    8925
    """
    if name in SETS:
        return SETS[name]
    close = closest(name.lower(), SETS, cutoff=0.7)
    hint = f"did you mean {' or '.join(close)}?" if close else f"choose one of {', '.join(SETS)}."
    raise InputError(f"set {name!r}: there is none of that name; {hint}")


@border
def find_set(name: str, root: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the path to pass to `open_images` for a set that is there, or None.

    root: `home()` if None.
    """
    wanted = benchmark_set(name)
    root = _root(root)
    folders = [root / name] if wanted.open == "." else [root / name, root]
    for folder in folders:
        if (folder / wanted.needs).exists():
            return folder / wanted.open
    return None


@border
def how_to_get(name: str, root: str | os.PathLike[str] | None = None) -> str:
    """Say how a set gets to where `find_set` looks.

    >>> how_to_get("svhn")
    'get it with: typica data get svhn'
    """
    wanted = benchmark_set(name)
    if not wanted.files:
        return f"see {wanted.page}: {wanted.by_hand}, below {_root(root) / name}"
    option = "" if root is None else f" --root {shlex.quote(os.fspath(root))}"
    return f"get it with: typica data get {name}{option}"
