"""What stands before a detector where images go in: pixels, and the network."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from spox import Tensor, Var, argument

from typica.data import Preprocessing
from typica.errors import InputError
from typica.export._network import Network, TracedRows
from typica.export._pixels import prepared
from typica.nets import Opened, Reopened, open_model, reopen
from typica.origin import Origin


class Front(NamedTuple):
    """A network for images, and how pixels become its input; facts: for the metadata."""

    network: Network
    transform: Preprocessing | None
    uint8: bool
    facts: dict[str, str]

    def __call__(self) -> tuple[Var, TracedRows]:
        """Return the input of the graph, and what the network makes of it."""
        if self.uint8 and self.transform is not None:
            pixels = argument(Tensor(np.uint8, ("N", "height", "width", 3)))
            return pixels, self.network(prepared(pixels, self.transform, self.network.shape).var)
        images = argument(Tensor(self.network.dtype, ("N", *self.network.shape)))
        return images, self.network(images)


def front_of(
    network: Any,
    origin: Origin | None,
    *,
    weights: Any = None,
    trust: bool = False,
    transform: Preprocessing | Mapping[str, Any] | None = None,
    uint8: bool = False,
) -> Front:
    """Open a network, or take one that is open; it must be that of `origin` where that is known."""
    opened, own = _opened(network, origin, weights, trust)
    transform = _exported_preprocessing(transform, own, origin)
    if uint8 and transform is None:
        raise InputError(
            "how pixels become the network's input is not known; pass transform, "
            "or fit the detector on a bank that knows."
        )
    shape = None if transform is None else transform.shape
    facts = {"model": opened.identity.model, "weights": opened.identity.weights}
    if transform is not None:
        facts["transform"] = json.dumps(transform.to_dict())
    return Front(Network.of(opened.extractor, shape), transform, uint8, facts)


def _exported_preprocessing(
    given: Preprocessing | Mapping[str, Any] | None,
    own: Preprocessing | None,
    origin: Origin | None,
) -> Preprocessing | None:
    """Return the preprocessing to export: that given, in whole or in part, or the network's own."""
    if given is None:
        return own
    if origin is not None:
        raise InputError("the detector knows its preprocessing; leave transform out.")
    if isinstance(given, Preprocessing):
        return given
    if own is None or "resize" in given:
        return Preprocessing.from_dict(given)
    return replace(own, **given)


def _opened(
    network: Any, origin: Origin | None, weights: Any, trust: bool
) -> tuple[Opened, Preprocessing | None]:
    if isinstance(network, Reopened):
        return network.opened, network.transform
    if isinstance(network, Opened):
        return network, network.transform
    if origin is not None:
        found = reopen(origin, model=network, weights=weights, trust=trust)
        return found.opened, found.transform
    opened = open_model(network, weights, trust=trust)
    return opened, opened.transform
