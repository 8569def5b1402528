"""Benchmarks: suites of networks and data, experiments on them, one record of what came out.

    from typica.bench import builtin_features, load_suite, run_experiment, write_report

Every name is loaded when it is first asked for.
"""

import warnings
from typing import Any

import lazy_loader

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    """Return a public name of `typica.bench`, loaded now; `Engine` is an old one."""
    if name == "Engine":
        warnings.warn("Engine is called Workbench now", DeprecationWarning, stacklevel=2)
        name = "Workbench"
    return _load(name)
