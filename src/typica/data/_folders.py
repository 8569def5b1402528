"""Images in folders: which files are images, and how they are found."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from typica.data._folder_classes import Found, arrange, folder_notes
from typica.data._image_sets import FileImages
from typica.errors import InputError, about
from typica.files import printable
from typica.kinds import named_as_image


def is_hidden(name: str) -> bool:
    """Tell whether the images of a folder or archive do without this path, as it is hidden."""
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
    """Add what is in one folder to what was found; return its folders."""
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
        elif named_as_image(entry.name) and (_is_file(entry) or _leads_nowhere(entry)):
            found.images.append(name)
        else:
            found.ignored.append(name)
    return within


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
