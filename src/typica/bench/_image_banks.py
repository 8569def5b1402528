"""Banks that Typica makes of images by itself: made once, and kept in Typica's home."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from typica.bank import Bank, remove_if_changed
from typica.data import Images, in_order, open_images
from typica.errors import InputError, about, argument
from typica.files import home
from typica.nets import Settings, extract, reopen
from typica.origin import PROBE, Origin
from typica.progress import note


def bank_suffix(identity: Mapping[str, Any]) -> str:
    """Return the end of the name that a bank of images has in Typica's home."""
    named = {key: value for key, value in identity.items() if key != PROBE}
    return hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()[:16]


def forget_if_changed(folder: Path, identity: Mapping[str, Any]) -> None:
    """Delete a bank in Typica's home that was made before its network's code changed."""
    if remove_if_changed(folder, identity):
        note(f"{identity['model']} has changed: {folder.name} is made anew")


class Banked(NamedTuple):
    """Images, their labels in the order of the network's classes, and the bank made of them."""

    images: Images
    bank: Bank


def banked(
    path: Path,
    origin: Origin | None = None,
    *,
    split: str | None = None,
    classes: Any = None,
    settings: Settings | None = None,
    **network: Any,
) -> Banked | None:
    """Return the images of a path, and the bank made of them.

    None if no network is named and no image can be read: for a reader of features to complain of.

    Parameters
    ----------
    path
        Images.
    origin
        The network that should have made the features; None if `network` names it.
    split
        Which of the images are meant, if they have several splits.
    classes, settings
        As `typica.nets.extract` takes them.
    network
        model, weights, transform and trust, as `typica.nets.extract` takes them.
    """
    if origin is None and network.get("model") is None:
        if not _has_images_to_bank(path):
            return None
        raise InputError(
            f"{path}: holds images; name the network for them, {argument('model')}, "
            "or pass a bank of `typica extract`."
        )
    images = open_images(path, split=split)
    if classes is not None:
        images = in_order(images, classes)
    with about(str(path)):
        opened, transform = reopen(origin, **network, images=images)
    name = f"{path.resolve().name}-{bank_suffix(opened.identity_of(images, transform))}"
    folder = home() / "banks" / name
    forget_if_changed(folder, opened.identity_of(images, transform))
    bank = extract(images, opened, folder, transform, settings=settings)
    return Banked(images, bank)


def _has_images_to_bank(path: Path) -> bool:
    """Tell whether a bank of images could be made of a path, by reading the first of them."""
    try:
        open_images(path).read(0)
    except InputError:
        return False
    return True
