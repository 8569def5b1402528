"""What folders of images say of classes and splits.

Class folders follow ImageFolder's convention: folders sorted by name are the classes, and whatever
is in one, at any depth, belongs to it. Where images lie beside the folders, neither these nor those
in the folders have a class, and the set's `notes` say so. Folders called train, test or val
(or validation ...) are splits: the classes are the folders within them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from typica.errors import InputError, argument, listed
from typica.files import printable
from typica.kinds import IMAGE_ENDINGS

SPLITS = {
    "train": ("train", "training"),
    "test": ("test", "testing"),
    "val": ("val", "valid", "validation"),
}
SPLIT_FOLDERS: set[str] = set().union(*SPLITS.values())


@dataclass(frozen=True)
class Found:
    """Relative paths with "/": images, folders (also those without images), and the rest."""

    images: list[str]
    folders: list[str]
    ignored: list[str]


class Layout(NamedTuple):
    """The images of a split in order, as rows of what was found, with labels if it has classes."""

    rows: list[int]
    labels: NDArray[np.int64] | None
    classes: list[str] | None


def arrange(found: Found, split: str | None) -> Layout:
    """Choose the images of a split, order them as ImageFolder does, and label them by folder."""
    rows = _rows_of_split(found, split)
    if not rows:
        raise InputError(
            f"holds no images ({len(found.ignored)} other files); "
            f"known are {', '.join(IMAGE_ENDINGS)}."
        )
    depth = 1 if split is not None or _has_split_folders(found) else 0
    paths = [found.images[row] for row in rows]
    if any(path.count("/") <= depth for path in paths):  # beside the class folders, or without any
        return Layout(sorted(rows, key=lambda row: _place(found.images[row])), None, None)
    return _labelled_by_folder(found, rows, depth)


def _rows_of_split(found: Found, split: str | None) -> list[int]:
    """Return the rows of the images below the folders of a split, or of all."""
    if split is None:
        return list(range(len(found.images)))
    if split not in SPLITS:
        raise InputError(f"split={split!r} is unknown; choose one of {', '.join(SPLITS)}.")
    tops = [_top(path) for path in found.images]
    rows = [row for row, top in enumerate(tops) if top in SPLITS[split]]
    if not rows:
        there = ", ".join(sorted(set(filter(None, tops)))) or "no folders"
        raise InputError(
            f"no folder '{split}' with images in it, but {there}; leave out {argument('split')}."
        )
    return rows


def _has_split_folders(found: Found) -> bool:
    """Tell whether all images lie in folders of splits: the classes are the folders within."""
    return all(_top(path) in SPLIT_FOLDERS for path in found.images)


def _labelled_by_folder(found: Found, rows: list[int], depth: int) -> Layout:
    """Label images by the folders at a level. Those without images count, and keep their index."""
    parts = {row: found.images[row].split("/") for row in rows}
    tops = {part[0] for part in parts.values()}
    classes = {part[depth] for part in parts.values()} | _level(found.folders, depth, tops)
    index = {name: k for k, name in enumerate(sorted(classes))}
    label = {row: index[part[depth]] for row, part in parts.items()}
    ordered = sorted(
        rows, key=lambda row: (parts[row][:depth], label[row], _place(found.images[row]))
    )
    labels = np.array([label[row] for row in ordered], dtype=np.int64)
    return Layout(ordered, labels, [printable(name) for name in index])


def _level(folders: Iterable[str], depth: int, tops: set[str]) -> set[str]:
    """Return the names of the folders at a level, below these topmost ones."""
    names = set()
    for folder in folders:
        parts = folder.split("/")
        if len(parts) == depth + 1 and (depth == 0 or parts[0] in tops):
            names.add(parts[depth])
    return names


def _top(path: str) -> str:
    """Return the topmost folder of a path, or nothing for one that lies in none."""
    folder, slash, _ = path.partition("/")
    return folder if slash else ""


def _place(path: str) -> tuple[str, str]:
    folder, _, name = path.rpartition("/")
    return folder, name


def folder_notes(names: Sequence[str], labels: NDArray[np.int64] | None) -> list[str]:
    """Say so if there are no labels because images lie beside the folders.

    >>> folder_notes(["stray.png", "cat/1.png"], None)
    ['images lie beside the folders (stray.png), so folders are not taken as classes']
    """
    depths = [name.count("/") for name in names]
    if labels is not None or min(depths) == max(depths):
        return []
    least = min(depths)
    beside = [name for name, depth in zip(names, depths, strict=True) if depth == least]
    shown = listed(beside, 1)
    return [f"images lie beside the folders ({shown}), so folders are not taken as classes"]
