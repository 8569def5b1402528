"""Images that a text file lists, a "path label" on each line, as benchmarks hand out their sets."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from typica.data._image_sets import FileImages
from typica.errors import FormatError
from typica.files import printable, read_text


class Line(NamedTuple):
    """A path within the folder, and the number of a class; negative for none."""

    path: str
    label: int


def open_listed(listing: Path, root: Path) -> FileImages:
    """Return the images that a list names, in its order; paths are those within the folder `root`.

    There are labels unless one of them is negative, which is how lists mark images of no class.
    """
    lines = read_listing(listing)
    paths = [line.path for line in lines]
    labels = np.array([line.label for line in lines], dtype=np.int64)
    names = [printable(path) for path in paths]
    return FileImages(
        [os.path.join(root, path) for path in paths],  # noqa: PTH118 (strings: there may be millions)
        names,
        names,
        labels=labels if labels.min() >= 0 else None,
    )


def read_listing(listing: Path) -> list[Line]:
    """Return the lines of a list that are not empty; raise at the first that cannot be read."""
    lines = []
    for number, text in enumerate(read_text(listing).splitlines(), start=1):
        if text.strip():
            lines.append(_line(text, f"{printable(listing)}: line {number}"))
    if not lines:
        raise FormatError(
            f"{printable(listing)}: lists no images; write one path and label per line."
        )
    return lines


def _line(text: str, where: str) -> Line:
    path, _, label = text.strip().partition(" ")
    try:
        number = int(label)
    except ValueError:
        raise FormatError(
            f"{where} is {printable(text[:80])!r}; expected a path, a space and a whole number."
        ) from None
    if path.startswith("/") or ".." in path.split("/"):
        raise FormatError(f"{where} leaves the folder of the images; write paths within it.")
    return Line(path, number)
