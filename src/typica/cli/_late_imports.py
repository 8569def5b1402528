"""Modules that other packages import but a command may never use: executed on first use.

scikit-learn imports scipy.stats and pandas right away, and SciPy imports all of NumPy, even its
Fortran compiler. That takes as long as a network takes for an image. Only the command line does
this, whose process is ours; the library does not.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Iterator
from importlib import _bootstrap
from importlib.abc import Loader
from types import ModuleType
from typing import Any

MODULES = (
    "numpy.f2py", "numpy.polynomial", "numpy.testing", "scipy.stats", "pandas",
)  # fmt: skip


_running: set[str] = set()  # modules that are being executed


class Deferred(ModuleType):
    """A module that is not executed until it is asked for something that it does not have yet."""

    def __getattr__(self, name: str) -> Any:
        spec = self.__spec__
        if spec is None or spec.loader is None:
            raise AttributeError(name)
        with _import_lock(spec.name) as held:
            if type(self) is Deferred:
                if not held or spec.name in _running:  # its own code asks, or what it imports
                    raise AttributeError(f"module {spec.name!r} has no attribute {name!r}")
                _execute(self, spec.name, spec.loader)
        return getattr(self, name)


@contextlib.contextmanager
def _import_lock(name: str) -> Iterator[bool]:
    """Hold the lock by which `import` lets one thread execute a module, and others wait for it.

    Yields whether it is held. It is not where two threads would wait for each other for ever, each
    for the module that the other one executes: both then see what is there, as in any import.
    """
    lock = _bootstrap._get_module_lock(name)  # type: ignore[attr-defined]
    try:
        lock.acquire()
    except _bootstrap._DeadlockError:  # type: ignore[attr-defined]
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def _execute(module: ModuleType, name: str, loader: Loader) -> None:
    """Execute a deferred module; if that fails, restore it, so that the next use tries again."""
    before = dict(vars(module))
    _running.add(name)
    try:
        loader.exec_module(module)
    except BaseException:
        vars(module).clear()
        vars(module).update(before)
        raise
    finally:
        _running.discard(name)
    module.__class__ = ModuleType


def defer(*names: str) -> None:
    """Put modules that are installed and not loaded yet where `import` finds them, unexecuted."""
    for name in names:
        parent, _, child = name.rpartition(".")
        if name in sys.modules or importlib.util.find_spec(parent or name) is None:
            continue
        spec = importlib.util.find_spec(name)
        if spec is None:
            continue
        module = importlib.util.module_from_spec(spec)
        module.__class__ = Deferred
        sys.modules[name] = module
        if parent:
            setattr(sys.modules[parent], child, module)
