"""The network of a detector's origin, opened again, to be shown images straight away."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from typica.data import Images, Preprocessing
from typica.errors import InputError, argument, border, by_caller
from typica.files import sha256
from typica.nets import zoo
from typica.nets._network_input import transform_for
from typica.nets._network_of_function import FILES, is_function
from typica.nets._open_model import PROGRAMS, Opened, open_model
from typica.origin import Origin


class Reopened(NamedTuple):
    """A network that was opened again, and the preprocessing that belongs to it."""

    opened: Opened
    transform: Preprocessing

    def twin(self) -> Reopened | None:
        """Return the network once more, to be run in another thread; None where it cannot be."""
        make = getattr(self.opened.extractor, "twin", None)
        if make is None:
            return None
        try:
            return Reopened(self.opened._replace(extractor=make()), self.transform)
        except Exception:  # of any kind: a module may refuse to be copied
            return None


@border
def reopen(
    origin: Origin | None,
    *,
    model: Any = None,
    weights: Any = None,
    trust: bool = False,
    transform: Any = None,
    images: Images | None = None,
    layers: list[str] | None = None,
) -> Reopened:
    """Open the network of `origin` again and check that it is the same.

    A model that is a function runs its owner's code; a file cannot ask for that, so that `model`
    must name it.

    Parameters
    ----------
    origin
        The network that made the features; None where it is not known, and `model` names it.
    model, weights
        Where they are now, if they have moved.
    trust
        Whether a TorchScript or .pt2 file may be loaded, which can run code.
    transform, images
        As `transform_for` takes them; where there is an origin they only must agree with it.
    layers
        Those to read, in place of the layer that gave the features.
    """
    if origin is None:
        return _first_opened(model, weights, transform, images, layers=layers, trust=trust)
    _check_reduction(origin)
    spec = _remembered_model(origin) if model is None else model
    file = _remembered_weights(origin, spec) if weights is None else _existing(weights)
    _check_program(spec, origin)
    opened = open_model(
        spec,
        file,
        layer=origin.layer if layers is None else None,
        layers=layers,
        head=origin.head,
        reduce=origin.reduce,
        trust=trust,
    )
    if opened.identity.weights != origin.weights:
        raise _other_weights(file or spec)
    known = Preprocessing.from_dict(origin.transform)
    if origin.probe is not None:
        origin.check_answer(opened.origin(known).probe)
    if transform is not None and images is not None:
        _check_transform(transform_for(opened, images, transform), known)
    return Reopened(opened, known)


def _first_opened(
    model: Any,
    weights: Any,
    transform: Any,
    images: Images | None,
    **how: Any,
) -> Reopened:
    """Open the network that the caller says made the features of a detector."""
    if model is None or images is None:
        raise InputError(
            "was fitted on features and remembers no model; name the one that made them, "
            f"{argument('model')} and {argument('transform')}, "
            "fit it on a bank of `typica extract`, or pass features."
        )
    opened = open_model(model, weights, **how)
    return Reopened(opened, transform_for(opened, images, transform))


def _check_transform(given: Preprocessing, known: Preprocessing) -> None:
    if given != known:
        raise InputError(
            f"was fitted with the transform {json.dumps(known.to_dict())}; "
            f"leave {argument('transform')} out, or extract and fit again."
        )


def _remembered_model(origin: Origin) -> str:
    """Return the model to open; refuse a function, and a file that has gone."""
    spec = origin.model if origin.model_file is None else origin.model_file
    if is_function(spec):
        raise InputError(
            f"its network is the function {spec}, whose code runs only if you name it here: "
            f"{argument('model', spec)}."
        )
    if origin.model_file is not None:
        if not Path(origin.model_file).is_file():
            raise InputError(
                f"its model {origin.model_file} is not there any more; "
                f"say where it is, {argument('model', 'FILE')}."
            )
        return origin.model_file
    is_file = Path(origin.model).suffix.lower() in FILES
    if zoo.find(origin.model) is None and not is_file:
        again = "judge in Python, where it can be passed, or extract with a file and fit again"
        raise InputError(
            f"was fitted on the features of a module, {origin.model}; "
            f"{by_caller('pass that module, model=MODULE', again)}."
        )
    return origin.model


def _check_reduction(origin: Origin) -> None:
    """Refuse a function that made rows of maps: a file alone cannot ask for its code to run."""
    if is_function(origin.reduce):
        raise InputError(
            f"was fitted on rows that a function made of maps, reduce={origin.reduce}; extract "
            "these images with it, and judge the features."
        )


def _remembered_weights(origin: Origin, spec: Any) -> str | None:
    """Return the file of the weights; None where the model, a file or a module, holds its own."""
    named = isinstance(spec, str | os.PathLike) and Path(spec).suffix.lower() not in FILES
    if not named or origin.weights_file is None:
        return None
    return str(_existing(origin.weights_file))


def _existing(weights: Any) -> Any:
    """Return the weights to open again as they are; refuse a path that leads nowhere."""
    a_path = isinstance(weights, str | os.PathLike) and str(weights) not in ("bundled", "random")
    if a_path and not Path(weights).is_file():
        raise InputError(
            f"its weights {weights} are not there any more; "
            f"say where they are, {argument('weights', 'FILE')}."
        )
    return weights


def _check_program(spec: Any, origin: Origin) -> None:
    """Refuse another program by its file's fingerprint, before it is opened."""
    if not isinstance(spec, str | os.PathLike):
        return
    path = Path(spec)
    if path.suffix.lower() in PROGRAMS and path.is_file() and sha256(path) != origin.weights:
        raise _other_weights(spec)


def _other_weights(source: Any) -> InputError:
    name = source if isinstance(source, str | os.PathLike) else type(source).__name__
    return InputError(
        f"{name} holds other weights than the detector was fitted with; "
        f"find those, {argument('weights', 'FILE')}, or extract and fit again."
    )
