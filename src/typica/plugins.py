"""What other packages bring: detectors, rectifiers and suites, by entry points.

    [project.entry-points."typica.detectors"]
    halfspace = "my_package:Halfspace"

To install such a package is to agree that its code runs; none of it is loaded before it is named.
What lies in the working folder is not installed, even where Python looks for modules there.
"""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from importlib.metadata import EntryPoint, distributions
from typing import Any

from typica.errors import InputError, reason_of


def installed(group: str) -> dict[str, EntryPoint]:
    """Return what installed packages offer in a group, by name.

    >>> installed("typica.nothing")
    {}
    """
    here = os.path.realpath(os.curdir)
    elsewhere = [place for place in sys.path if place and os.path.realpath(place) != here]
    return dict(_installed(group, tuple(elsewhere)))


@lru_cache(maxsize=16)
def _installed(group: str, places: tuple[str, ...]) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name; of a package that is there twice, the first's."""
    found: dict[str, EntryPoint] = {}
    packages = set()
    for package in distributions(path=list(places)):
        points = package.entry_points.select(group=group)
        if points and package.name not in packages:  # the metadata of others are not read
            packages.add(package.name)
            found |= {point.name: point for point in points}
    return dict(sorted(found.items()))


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
