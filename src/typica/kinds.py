"""What a file or a folder is, so that one of the wrong kind is called by its name.

Looks at names, first bytes and headers only; nothing is loaded, and what nobody can tell is None.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Iterable
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
_NETWORKS = (".onnx", ".pt2", ".pt", ".pth", ".pth.tar", ".ckpt")
BANK = "is a bank"
FEATURES = "holds features"
SUITE = "is a suite"
DETECTOR = "holds a detector"
RESULT = "is the result of a benchmark"
_IMAGE_ARRAY = "holds images"
_HEAD, MONITOR = "holds a head", "holds a monitor's state"
_VERDICTS = "holds verdicts"
NETWORK = "holds a network"
STORED = {DETECTOR, _HEAD, MONITOR}  # what `typica.save` wrote
NO_IMAGES = {*STORED, FEATURES, SUITE, RESULT, _VERDICTS, "holds labels", "is a page", NETWORK}


def kind_of(path: str | os.PathLike[str]) -> str | None:
    """Return what a path is or holds, in words that follow its name; None where nobody can tell.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> np.save(folder / "train.npy", np.ones((5, 3)))
    >>> kind_of(folder / "train.npy"), kind_of(folder), kind_of(folder / "absent.npy")
    ('holds features', 'is a folder', None)
    """
    path = Path(path)
    try:
        if path.is_dir():
            return _folder(path)
        return _file(path) if path.is_file() else None
    except Exception:  # of many kinds, as damaged files have it
        return None


def wrong_kind(path: str | os.PathLike[str], wanted: str, todo: str) -> FormatError:
    """Return the error for a file that is not what was wanted, which says what it is if it can."""
    found = kind_of(path)
    what = f"{path}: not {wanted}" if found is None else f"{path} {found}, not {wanted}"
    return FormatError(f"{what}; {todo}.")


def check_kind(path: str | os.PathLike[str], allowed: str, wanted: str, todo: str) -> None:
    """Refuse a path that is known to be something else than what is allowed."""
    if kind_of(path) not in (None, allowed):
        raise wrong_kind(path, wanted, todo)


def _folder(path: Path) -> str:
    manifest = path / "manifest.json"
    if manifest.is_file() and "bank" in _json(manifest):
        return BANK
    if any((path / name).is_file() for name in ("result.json", "analysis.json")):
        return RESULT
    return "is a folder"


def _file(path: Path) -> str | None:
    with path.open("rb") as file:
        start = file.read(12)
    if start.startswith(_IMAGES) or (start[:4], start[8:]) == (b"RIFF", b"WEBP"):
        return "is an image"
    name = path.name.lower()
    if name.endswith(_NETWORKS):
        return NETWORK
    look = _BY_ENDING.get(path.suffix.lower())
    return None if look is None else look(path)


def _npy(path: Path) -> str | None:
    return _array(np.load(path, mmap_mode="r", allow_pickle=False))


def _array(array: Any) -> str | None:
    if array.dtype == np.uint8 and array.ndim in (3, 4):
        return _IMAGE_ARRAY
    if array.ndim == 1 and array.dtype.kind in "iuSU":
        return "holds labels"
    return FEATURES if array.ndim == 2 and array.dtype.kind in "fiub" else None


def _npz(path: Path) -> str | None:
    with zipfile.ZipFile(path) as archive:
        return _named(name.removesuffix(".npy") for name in archive.namelist())


def _named(names: Iterable[str]) -> str | None:
    """Tell by the names of arrays."""
    known = {name.rpartition(".")[2] for name in names}
    if "images" in known:
        return _IMAGE_ARRAY
    if "weight" in known:
        return _HEAD if known <= {"weight", "bias", "classes"} else "holds a network's weights"
    return FEATURES if "features" in known else None


def _safetensors(path: Path) -> str | None:
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if size > _LONGEST:
            return None
        header = json.loads(file.read(size))
    text = header.pop("__metadata__", {}).get("typica")
    if text is None:
        return _named(header)
    tag = next(iter(json.loads(text)["content"]))
    return {"$head": _HEAD, "$monitor": MONITOR, "$perceptron": NETWORK}.get(tag, DETECTOR)


def _json(path: Path) -> dict[str, Any]:
    if path.stat().st_size > _LONGEST:
        return {}
    found = json.loads(path.read_text(encoding="utf-8"))
    return found if isinstance(found, dict) else {}


def _document(path: Path) -> str | None:
    return RESULT if "results" in _json(path) else None


def _csv(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        names = file.readline().strip().split(",")
    return _VERDICTS if {"verdict", "score"} <= set(names) else FEATURES


def _jsonl(path: Path) -> str | None:
    with path.open(encoding="utf-8") as file:
        first = json.loads(file.readline())
    if isinstance(first, list):
        return FEATURES
    return _VERDICTS if "score" in first else None


_BY_ENDING: dict[str, Callable[[Path], str | None]] = {
    ".csv": _csv,
    ".html": lambda path: "is a page",
    ".json": _document,
    ".jsonl": _jsonl,
    ".npy": _npy,
    ".npz": _npz,
    ".safetensors": _safetensors,
    ".toml": lambda path: SUITE,
    ".zip": lambda path: "is an archive",
}
