"""Images in folders: which files are images, and what the folders say of classes and splits.

Class folders follow ImageFolder's convention: folders sorted by name are the classes, whatever lies
at any depth in one belongs to it. Images that lie directly in a folder have no class, and then
those in its subfolders have none, which the set's `notes` say. Folders called train, test or val
(or validation ...) are splits: the classes are the folders within them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from typica.data._decode import ENDINGS, printable
from typica.data._image_sets import FileImages, folder_notes
from typica.errors import InputError

SPLITS = {
    "train": ("train", "training"),
    "test": ("test", "testing"),
    "val": ("val", "valid", "validation"),
}
_SPLIT_FOLDERS = {folder for folders in SPLITS.values() for folder in folders}


class Found(NamedTuple):
    """Relative paths with "/": images, folders (also those without images), and what is neither."""

    pictures: list[str]
    folders: list[str]
    ignored: list[str]


class Layout(NamedTuple):
    """The images of a split in their order, as rows of what was found, with labels if there are classes."""

    rows: list[int]
    labels: NDArray[np.int64] | None
    classes: list[str] | None


def is_picture(name: str) -> bool:
    """Tell by its name whether a file is an image: a known ending, and not hidden."""
    base = name.rpartition("/")[2]
    return not base.startswith(".") and base.lower().endswith(ENDINGS)


def is_hidden(name: str) -> bool:
    """Tell whether a path lies in, or is, something hidden, or what macOS adds to archives."""
    return any(part.startswith(".") or part == "__MACOSX" for part in name.split("/"))


def open_folder(root: Path, split: str | None, prefix: str = "") -> FileImages:
    """Return the images in a folder; `prefix` goes before their names."""
    found = walk(root)
    layout = arrange(found, split, str(root))
    keys = [found.pictures[row] for row in layout.rows]
    names = [prefix + printable(key) for key in keys]
    return FileImages(
        [os.path.join(root, key) for key in keys],  # noqa: PTH118 (strings: a set may hold millions)
        names,
        [printable(key) for key in keys],
        labels=layout.labels,
        classes=layout.classes,
        ignored=[prefix + printable(name) for name in found.ignored],
        notes=folder_notes(names, layout.labels),
    )


def walk(root: Path) -> Found:
    """Find what lies in a folder at any depth. Links are followed, but not back into a folder that holds them."""
    found = Found([], [], [])
    waiting: list[tuple[str, str, frozenset[tuple[int, int]]]] = [(str(root), "", frozenset())]
    while waiting:
        folder, prefix, above = waiting.pop()
        try:
            status = os.stat(folder)  # noqa: PTH116
            with os.scandir(folder) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            if not prefix:
                raise InputError(f"{root}: the folder cannot be read ({error.strerror}).") from None
            found.ignored.append(prefix)
            continue
        here = (status.st_dev, status.st_ino)
        if here in above:
            found.ignored.append(prefix)
            continue
        for entry in entries:
            name = prefix + entry.name
            if _is_folder(entry):
                if is_hidden(entry.name):
                    found.ignored.append(f"{name}/")
                else:
                    found.folders.append(name)
                    waiting.append((entry.path, f"{name}/", above | {here}))
            elif is_picture(entry.name) and (_is_file(entry) or _leads_nowhere(entry)):
                found.pictures.append(name)
            else:
                found.ignored.append(name)
    return found._replace(ignored=sorted(found.ignored))


def arrange(found: Found, split: str | None, where: str) -> Layout:
    """Choose the images of a split, order them as ImageFolder does, and label them by their class folders."""
    if split is not None and split not in SPLITS:
        raise InputError(f"{where}: split={split!r} is unknown; choose one of {', '.join(SPLITS)}.")
    top = {path.partition("/")[0] for path in found.pictures if "/" in path}
    flat = any("/" not in path for path in found.pictures)
    rows = list(range(len(found.pictures)))
    depth = 0  # the level whose folders are the classes
    if split is not None:
        rows = [
            row
            for row in rows
            if found.pictures[row].partition("/")[0] in top.intersection(SPLITS[split])
        ]
        if not rows:
            there = ", ".join(sorted(top)) or "no folders"
            raise InputError(
                f"{where}: no folder '{split}' with images in it, but {there}; leave split out."
            )
        depth = 1
    elif top and not flat and top <= _SPLIT_FOLDERS:
        depth = 1
    if not rows:
        raise InputError(
            f"{where}: holds no images ({len(found.ignored)} other files); known are {', '.join(ENDINGS)}."
        )
    parts = [found.pictures[row].split("/") for row in rows]
    if any(len(part) <= depth + 1 for part in parts):
        return Layout(sorted(rows, key=lambda row: _place(found.pictures[row])), None, None)
    used = {part[0] for part in parts}
    empty = _level(found.folders, depth, used)
    classes = sorted({part[depth] for part in parts} | empty)
    index = {name: k for k, name in enumerate(classes)}
    label = {row: index[part[depth]] for row, part in zip(rows, parts, strict=True)}
    rows.sort(
        key=lambda row: (
            found.pictures[row].split("/")[:depth],
            label[row],
            _place(found.pictures[row]),
        )
    )
    return Layout(
        rows,
        np.array([label[row] for row in rows], dtype=np.int64),
        [printable(name) for name in classes],
    )


def _place(path: str) -> tuple[str, str]:
    folder, _, name = path.rpartition("/")
    return folder, name


def _level(folders: Iterable[str], depth: int, tops: Sequence[str] | set[str]) -> set[str]:
    """Return the names of the folders at a level, without images or with: they count as classes, and keep indices."""
    parts = [folder.split("/") for folder in folders]
    return {
        part[depth] for part in parts if len(part) == depth + 1 and (depth == 0 or part[0] in tops)
    }


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:
        return False


def _leads_nowhere(entry: os.DirEntry[str]) -> bool:
    """Tell whether an entry is a link to nothing: an image that is missing, which reading it will say."""
    return entry.is_symlink() and not os.path.exists(entry.path)  # noqa: PTH110
