"""The names of a network's outputs in their order, and images whose labels index them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica.data._image_sets import Images
from typica.errors import FormatError, InputError, a_kind, about, border, closest, listed
from typica.files import read_text, reading


def read_classes(path: str | os.PathLike[str]) -> list[str]:
    """Return the names of classes in a file: one per line, or JSON.

    In JSON, a list of names, or an object from names to numbers or from numbers to names.
    """
    path = Path(path)
    with reading(path, "not a file of class names that can be read"):
        text = read_text(path)
        if path.suffix.lower() == ".json":
            with about(str(path)):
                names = _names_in(json.loads(text))
        else:
            names = [line.strip() for line in text.splitlines() if line.strip()]
    with about(str(path)):
        check_classes(names)
    return names


@border
def check_classes(names: Sequence[str]) -> None:
    """Raise where a list of class names for a set of images is empty, or has a name twice."""
    if not names:
        raise FormatError("no class names; write one per line, in the order of the outputs.")
    twice = [name for place, name in enumerate(names) if name in names[:place]]
    if twice:
        raise FormatError(f"the class {twice[0]!r} comes twice; name each output once.")


def _names_in(values: Any) -> list[str]:
    """Return the class names that a JSON file lists, or numbers in either direction, in order."""
    if isinstance(values, list):
        return [_name(value) for value in values]
    if not isinstance(values, Mapping):
        raise FormatError(f"holds {a_kind(values)}; write a list of names.")
    pairs = []
    for key, value in values.items():
        named_first = isinstance(value, int)
        pairs.append((value, str(key)) if named_first else (int(key), _name(value)))
    pairs.sort()
    if [number for number, _ in pairs] != list(range(len(pairs))):
        raise FormatError("its numbers are not 0, 1, 2 ...; number each output once.")
    return [name for _, name in pairs]


def _name(value: Any) -> str:
    """Return one name in a file of class names, which holds texts or numbers."""
    if not isinstance(value, str | int | float):
        raise FormatError(f"{value!r} is not a name; write one text for each output.")
    return str(value)


@border
def in_order(images: Images, classes: Sequence[str]) -> Images:
    """Return a set of images with labels that index `classes`, a list of class names in any order.

    >>> from typica.data import open_images
    >>> images = open_images(np.zeros((2, 8, 8, 3), dtype=np.uint8), labels=["one", "two"])
    >>> in_order(images, ["two", "one", "zero"]).labels
    array([1, 0])
    """
    check_classes(classes)
    labels = images.labels
    if labels is not None and images.classes is None:
        _check_numbers(labels, len(classes))
    elif labels is not None and images.classes is not None:
        labels = _places_of_classes(images.classes, classes)[labels]
    return images.relabelled(labels, classes)


def _check_numbers(labels: NDArray[np.int64], n_classes: int) -> None:
    """Raise where labels of images are numbers beyond the list of class names."""
    if labels.min() < 0 or labels.max() >= n_classes:
        raise InputError(f"labels up to {labels.max()} for {n_classes} classes; name all of them.")


def _places_of_classes(names: Sequence[str], classes: Sequence[str]) -> NDArray[np.int64]:
    """Return the place of each class name of a data set in the list of names that was read."""
    place = {name: number for number, name in enumerate(classes)}
    strange = [name for name in names if name not in place]
    if strange:
        raise InputError(
            f"the images have a class {strange[0]!r}, which is not among the {len(classes)} given; "
            f"closest: {listed(closest(strange[0], classes, cutoff=0.3) or classes)}."
        )
    return np.array([place[name] for name in names], dtype=np.int64)
