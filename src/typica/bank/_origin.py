"""The network that a bank's rows come from, as its identity and settings tell it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from typica.errors import about
from typica.origin import Origin

_FILES = ("model_file", "weights_file")  # kept with the settings: where they lie makes no feature


def origin_in(identity: Mapping[str, Any], settings: Mapping[str, Any]) -> Origin | None:
    """Return the network that these values of a manifest tell of, or None if they tell of none."""
    if not Origin.known_in(identity):
        return None
    files = {key: settings.get(key) for key in _FILES}
    return Origin.from_dict({**identity, **files})


def source_in(identity: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the same as a plain dict, with what is known alone."""
    origin = origin_in(identity, settings)
    if origin is None:
        return None
    known = {key: identity[key] for key in origin.to_dict() if key in identity}
    return known | {key: settings.get(key) for key in _FILES}


def check_source(
    path: str | os.PathLike[str], other: Mapping[str, Any] | None, source: Mapping[str, Any] | None
) -> None:
    """Raise if `other`, the source of the bank at `path`, is another network than `source`.

    See `Bank.source`. Where either is unknown there is nothing to compare.
    """
    if source is None or other is None:
        return
    with about(os.fspath(path)):
        Origin.from_dict(source).check_same(Origin.from_dict(other))
