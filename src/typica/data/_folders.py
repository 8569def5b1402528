"""Images in folders: which files are images, and what the folders say of classes and splits.

Class folders follow ImageFolder's convention: folders sorted by name are the classes, whatever lies
at any depth in one belongs to it. Images that lie directly in a folder have no class, and then
those in its subfolders have none, which the set's `notes` say. Folders called train, test or val
(or validation ...) are splits: the classes are the folders within them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from typica.data._decode import ENDINGS, printable
from typica.data._image_sets import FileImages, folder_notes
from typica.errors import InputError, about

SPLITS = {
    "train": ("train", "training"),
    "test": ("test", "testing"),
    "val": ("val", "valid", "validation"),
}
_SPLIT_FOLDERS: set[str] = set().union(*SPLITS.values())


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


def is_image(name: str) -> bool:
    """Tell by its name whether a file is an image: a known ending, and not hidden."""
    base = name.rpartition("/")[2]
    return not base.startswith(".") and base.lower().endswith(ENDINGS)


def is_hidden(name: str) -> bool:
    """Tell whether a path lies in, or is, something hidden, or what macOS adds to archives."""
    return any(part.startswith(".") or part == "__MACOSX" for part in name.split("/"))


def open_folder(root: Path, split: str | None, prefix: str = "") -> FileImages:
    """Return the images in a folder; `prefix` goes before their names."""
    found = walk(root)
    with about(str(root)):
        layout = arrange(found, split)
    keys = [found.images[row] for row in layout.rows]
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


class _Folder(NamedTuple):
    """A folder to look into: where it is, its prefix in names, and the folders that it lies in."""

    path: str
    prefix: str
    above: frozenset[tuple[int, int]]


def walk(root: Path) -> Found:
    """Find what lies in a folder at any depth.

    Links are followed, but not back into a folder that holds them.
    """
    found = Found([], [], [])
    waiting = [_Folder(str(root), "", frozenset())]
    while waiting:
        waiting += _look_into(waiting.pop(), found)
    found.ignored.sort()
    return found


def _look_into(folder: _Folder, found: Found) -> list[_Folder]:
    """Sort what lies in one folder into what was found; return its folders."""
    try:
        status = os.stat(folder.path)  # noqa: PTH116
        with os.scandir(folder.path) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except OSError as error:
        if not folder.prefix:
            raise InputError(
                f"{folder.path}: the folder cannot be read ({error.strerror})."
            ) from None
        found.ignored.append(folder.prefix)
        return []
    here = (status.st_dev, status.st_ino)
    if here in folder.above:
        found.ignored.append(folder.prefix)
        return []
    within = []
    for entry in entries:
        name = folder.prefix + entry.name
        if _is_folder(entry):
            if is_hidden(entry.name):
                found.ignored.append(f"{name}/")
            else:
                found.folders.append(name)
                within.append(_Folder(entry.path, f"{name}/", folder.above | {here}))
        elif is_image(entry.name) and (_is_file(entry) or _leads_nowhere(entry)):
            found.images.append(name)
        else:
            found.ignored.append(name)
    return within


def arrange(found: Found, split: str | None) -> Layout:
    """Choose the images of a split, order them as ImageFolder does, and label them by folder."""
    rows = _rows_of_split(found, split)
    if not rows:
        raise InputError(
            f"holds no images ({len(found.ignored)} other files); known are {', '.join(ENDINGS)}."
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
        raise InputError(f"no folder '{split}' with images in it, but {there}; leave split out.")
    return rows


def _has_split_folders(found: Found) -> bool:
    """Tell whether all images lie in folders of splits: the classes are the folders within."""
    return all(_top(path) in _SPLIT_FOLDERS for path in found.images)


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
    """Tell whether an entry is a link to nothing: an image that is missing, as reading will say."""
    return entry.is_symlink() and not os.path.exists(entry.path)  # noqa: PTH110
