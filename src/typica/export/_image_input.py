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
            pixels = argument(Tensor(np.uint8, ("N", *self._sides(self.transform), 3)))
            return pixels, self.network(prepared(pixels, self.transform, self.network.shape).var)
        images = argument(Tensor(self.network.dtype, ("N", *self.network.shape)))
        return images, self.network(images)

    def _sides(self, transform: Preprocessing) -> tuple[int | str, ...]:
        """Return the height and the width of pixels: any, or the network's if none are resized."""
        as_they_are = transform.resize is None and transform.crop is None
        return self.network.shape[1:] if as_they_are else ("height", "width")


def front_of(
    network: Any,
    origin: Origin | None,
    *,
    weights: Any = None,
    trust: bool = False,
    transform: Preprocessing | Mapping[str, Any] | None = None,
    uint8: bool = False,
) -> Front:
    """Open a network, or take one that is open; it must be that of `origin`, if known."""
    opened, own = _opened(network, origin, weights, trust)
    transform = _exported_preprocessing(transform, own, origin)
    if uint8 and transform is None:
        raise InputError(
            "how pixels become the network's input is not known; pass transform, "
            "or fit the detector on a bank that has it."
        )
    shape = None if transform is None else transform.shape
    if uint8 and transform is not None and transform.resize is not None and None in transform.shape:
        raise InputError(
            "its images come out in different sizes, as one side alone is resized; give transform "
            "a crop, or resize to (height, width)."
        )
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
    if isinstance(network, Opened | Reopened):
        return _open_already(network, origin, weights)
    if origin is not None:
        found = reopen(origin, model=network, weights=weights, trust=trust)
        return found.opened, found.transform
    opened = open_model(network, weights, trust=trust)
    return opened, opened.transform


def _open_already(
    network: Opened | Reopened, origin: Origin | None, weights: Any
) -> tuple[Opened, Preprocessing | None]:
    """Return an open network to export, with its preprocessing; refuse one of another origin."""
    if weights is not None:
        raise InputError("the network is open, and has its weights; leave weights out.")
    opened = network.opened if isinstance(network, Reopened) else network
    if origin is None:
        return opened, network.transform
    known = Preprocessing.from_dict(origin.transform)
    found = opened.origin(known)
    for key in ("weights", "layer", "head", "reduce"):
        if getattr(found, key) != getattr(origin, key):
            raise InputError(
                f"the network differs in its {key} from the one that the detector was fitted for; "
                "pass that one, as reopen opens it."
            )
    origin.check_answer(found.probe)
    return opened, known
