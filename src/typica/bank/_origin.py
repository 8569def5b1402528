"""The network that a bank's rows come from, as its identity and settings tell it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typica.origin import Origin

_FILES = ("model_file", "weights_file")  # kept with the settings: their place does not matter


def origin_in(identity: Mapping[str, Any], settings: Mapping[str, Any]) -> Origin | None:
    """Return the network that these values of a manifest describe, or None if there is none."""
    if not Origin.known_in(identity):
        return None
    files = {key: settings.get(key) for key in _FILES}
    return Origin.from_dict({**identity, **files})
