"""What a file or a folder is, so that messages can say what one of the wrong kind is.

Looks only at names, first bytes and headers; nothing is loaded, and None means unknown.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from typica.errors import FormatError

_LONGEST = 2**24  # bytes of a header or a text that is looked into
_IMAGES = (  # the first bytes of images
    b"\xff\xd8\xff",
    b"\x89PNG\r\n",
    b"GIF8",
    b"BM",
    b"II*\0",
    b"MM\0*",
)
_PARQUET = b"PAR1"  # and those of Parquet files
IMAGE_ENDINGS = (
    ".avif", ".bmp", ".gif", ".jfif", ".jp2", ".jpe", ".jpeg", ".jpg", ".pbm", ".pgm", ".png",
    ".pnm", ".ppm", ".tif", ".tiff", ".webp",
)  # fmt: skip
_NETWORKS = (".onnx", ".pt2", ".pt", ".pth", ".pth.tar", ".ckpt")


class Kind(StrEnum):
    """What a file or a folder is or holds, in words that follow its name."""

    ARCHIVE = "is an archive"
    BANK = "is a bank"
    DETECTOR = "holds a detector"
    FEATURES = "holds features"
    FOLDER = "is a folder"
    HEAD = "holds a head"
    IMAGE = "is an image"
    IMAGES = "holds images"
    LABELS = "holds labels"
    MONITOR = "holds a monitor's state"
    NETWORK = "holds a network"
    PAGE = "is a page"
    RESULT = "is the result of a benchmark"
    SUITE = "is a suite"
    TABLE = "holds a table"  # of features, images or verdicts, as its columns say
    VERDICTS = "holds verdicts"
    WEIGHTS = "holds a network's weights"


STORED = {Kind.DETECTOR, Kind.HEAD, Kind.MONITOR}  # what `typica.save` wrote
NO_IMAGES = {
    *STORED,
    Kind.FEATURES,
    Kind.LABELS,
    Kind.NETWORK,
    Kind.PAGE,
    Kind.RESULT,
    Kind.SUITE,
    Kind.VERDICTS,
}


def kind_of(path: str | os.PathLike[str]) -> Kind | None:
    """Return what a path is or holds, in words that follow its name; None if unknown.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> np.save(folder / "train.npy", np.ones((5, 3)))
    >>> str(kind_of(folder / "train.npy")), kind_of(folder / "absent.npy")
    ('holds features', None)
    """
    path = Path(path)
    try:
        if path.is_dir():
            return _folder(path)
        return _file(path) if path.is_file() else None
    except Exception:  # of any kind, as damaged files cause them
        return None


def named_as_image(name: str) -> bool:
    """Tell whether a file, of a folder or archive, has the name of an image and is not hidden."""
    base = name.rpartition("/")[2]
    return not base.startswith(".") and base.lower().endswith(IMAGE_ENDINGS)


def wrong_kind(path: str | os.PathLike[str], wanted: str, todo: str) -> FormatError:
    """Return the error for a file that is not what was wanted, which says what it is if it can."""
    found = kind_of(path)
    what = f"{path}: not {wanted}" if found is None else f"{path} {found}, not {wanted}"
    return FormatError(f"{what}; {todo}.")


def check_kind(path: str | os.PathLike[str], allowed: Kind, wanted: str, todo: str) -> None:
    """Refuse a path that is known to be something other than what is allowed."""
    if kind_of(path) not in (None, allowed):
        raise wrong_kind(path, wanted, todo)


def _folder(path: Path) -> Kind:
    manifest = path / "manifest.json"
    if manifest.is_file() and "bank" in _json(manifest):
        return Kind.BANK
    if any((path / name).is_file() for name in ("result.json", "analysis.json")):
        return Kind.RESULT
    return Kind.FOLDER


def _file(path: Path) -> Kind | None:
    with path.open("rb") as file:
        start = file.read(12)
    if start.startswith(_IMAGES) or (start[:4], start[8:]) == (b"RIFF", b"WEBP"):
        return Kind.IMAGE
    if start.startswith(_PARQUET):
        return Kind.TABLE
    name = path.name.lower()
    if name.endswith(_NETWORKS):
        return Kind.NETWORK
    look = _BY_ENDING.get(path.suffix.lower())
    return None if look is None else look(path)


def _npy(path: Path) -> Kind | None:
    return _array(np.load(path, mmap_mode="r", allow_pickle=False))


def _array(array: Any) -> Kind | None:
    if array.dtype == np.uint8 and array.ndim in (3, 4):
        return Kind.IMAGES
    if array.ndim == 1 and array.dtype.kind in "iuSU":
        return Kind.LABELS
    return Kind.FEATURES if array.ndim == 2 and array.dtype.kind in "fiub" else None


def _npz(path: Path) -> Kind | None:
    with zipfile.ZipFile(path) as archive:
        return _kind_by_arrays(name.removesuffix(".npy") for name in archive.namelist())


def _kind_by_arrays(names: Iterable[str]) -> Kind | None:
    """Tell what a file is by the names of the arrays in it."""
    there = list(names)
    known = {name.rpartition(".")[2] for name in there}
    if "images" in known:
        return Kind.IMAGES
    if "weight" in known:
        one_layer = known <= {"weight", "bias", "classes"} and len(layers_named(there)) == 1
        return Kind.HEAD if one_layer else Kind.WEIGHTS
    return Kind.FEATURES if "features" in known else None


def layers_named(names: Iterable[str]) -> list[str]:
    """Tell by the names of its arrays which layers a file holds: one of a head, more of weights.

    '' is a layer without a name.

    >>> layers_named(["fc.weight", "fc.bias", "hidden.weight", "classes"]), layers_named(["weight"])
    (['fc', 'hidden'], [''])
    """
    parts = [name.rpartition(".") for name in names]
    return sorted({layer for layer, _, array in parts if array in ("weight", "bias")})


def _safetensors(path: Path) -> Kind | None:
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if size > _LONGEST:
            return None
        header = json.loads(file.read(size))
    text = header.pop("__metadata__", {}).get("typica")
    if text is None:
        return _kind_by_arrays(header)
    tag = next(iter(json.loads(text)["content"]))
    others = {"$head": Kind.HEAD, "$monitor": Kind.MONITOR, "$perceptron": Kind.NETWORK}
    return others.get(tag, Kind.DETECTOR)


def _json(path: Path) -> dict[str, Any]:
    if path.stat().st_size > _LONGEST:
        return {}
    found = json.loads(path.read_text(encoding="utf-8"))
    return found if isinstance(found, dict) else {}


def _document(path: Path) -> Kind | None:
    return Kind.RESULT if "results" in _json(path) else None


def _csv(path: Path) -> Kind:
    with path.open(encoding="utf-8") as file:
        names = file.readline().strip().split(",")
    return Kind.VERDICTS if {"verdict", "score"} <= set(names) else Kind.FEATURES


def _jsonl(path: Path) -> Kind | None:
    with path.open(encoding="utf-8") as file:
        first = json.loads(file.readline())
    if isinstance(first, list):
        return Kind.FEATURES
    return Kind.VERDICTS if "score" in first else None


_BY_ENDING: dict[str, Callable[[Path], Kind | None]] = {
    ".csv": _csv,
    ".html": lambda path: Kind.PAGE,
    ".json": _document,
    ".jsonl": _jsonl,
    ".npy": _npy,
    ".npz": _npz,
    ".safetensors": _safetensors,
    ".toml": lambda path: Kind.SUITE,
    ".zip": lambda path: Kind.ARCHIVE,
}
