"""What other packages bring: detectors, rectifiers and suites, by entry points.

    [project.entry-points."typica.detectors"]
    halfspace = "my_package:Halfspace"

To install such a package is to agree that its code runs; none of it is loaded before it is named.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from typica.errors import InputError, reason_of


def installed(group: str) -> dict[str, EntryPoint]:
    """Return what installed packages offer in a group, by name.

    >>> installed("typica.nothing")
    {}
    """
    return dict(_installed(group, tuple(sys.path)))


@lru_cache(maxsize=16)
def _installed(group: str, _: tuple[str, ...]) -> dict[str, EntryPoint]:
    return {point.name: point for point in sorted(entry_points(group=group))}


def load(point: EntryPoint) -> Any:
    """Return what an entry point names; if that fails, say which package is at fault."""
    try:
        return point.load()
    except Exception as error:  # another package's code: of any kind
        owner = point.dist.name if point.dist is not None else point.value
        raise InputError(
            f"{point.name}: the package {owner} cannot be loaded ({reason_of(error)}); "
            "update it, or remove it."
        ) from error
