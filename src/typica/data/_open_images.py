"""Open images, whatever holds them, as one read-only sequence with names and labels.

| source                               | labels                                               |
|--------------------------------------|------------------------------------------------------|
| folder, also with train / test / val | its folders; none if images lie beside them          |
| .zip, .tar, .tar.gz ...              | the same, from the names within; nothing is unpacked |
| an image's file                      | none                                                 |
| list of any of these                 | those of the parts, if all have them                 |
| array, .npy                          | none                                                 |
| Pillow image, list of them or arrays | none                                                 |
| .npz                                 | the array `labels`, beside `images`                  |
| .parquet                             | the column `label`, beside `image`                   |
| CIFAR-10 and -100, pickles or binary | theirs                                               |
| SVHN, .mat                           | theirs; the digit 0, there 10, is 0                  |
| folder with a list, `listing=`       | the list's; none if one of them is negative          |
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

import array_api_compat
import numpy as np
from PIL import Image

from typica.arrays import AnyArray
from typica.data._archives import ARCHIVES, open_tar, open_zip
from typica.data._cifar import is_cifar, open_cifar
from typica.data._folder_classes import SPLITS
from typica.data._folders import open_folder
from typica.data._image_arrays import open_mat, open_npy, open_npz, open_parquet
from typica.data._image_lists import open_listed
from typica.data._image_sets import (
    ArrayImages,
    FileImages,
    Images,
    LooseImages,
    indexed_labels,
    joined,
)
from typica.data.features import read_labels
from typica.errors import InputError, a_kind, argument, border, reason_of
from typica.files import FULL, printable, reading
from typica.kinds import IMAGE_ENDINGS, NO_IMAGES, kind_of, wrong_kind

_PACKS: dict[str, Callable[[Path, str], Images]] = {
    ".mat": open_mat,
    ".npy": open_npy,
    ".npz": open_npz,
    ".parquet": open_parquet,
}


@border
def open_images(
    source: Any,
    *,
    labels: Any = None,
    split: str | None = None,
    listing: str | os.PathLike[str] | None = None,
) -> Images:
    """Return the images of a path, of a list of paths, of a uint8 array, or of Pillow images.

    Files among the images that are not images are left out and listed in `ignored`. Images are
    read, and found to be damaged, when `read` asks for them.

    Parameters
    ----------
    source
        A path, or several; an array (n, h, w, 3) or (n, h, w); a Pillow image; a list of Pillow
        images and arrays (h, w, 3) or (h, w), one per image.
    labels
        One per image, integers or names, or a file of them; in place of the source's own.
    split
        "train", "test" or "val" of a source that has them (CIFAR, SVHN, folders and archives with
        folders of that name); None is all.
    listing
        A text file with a line "path label" for each wanted image of the folder `source`.

    >>> images = open_images(np.zeros((2, 8, 8, 3), dtype=np.uint8), labels=["cat", "dog"])
    >>> images.names[1], images.labels, images.classes
    ('images[1]', array([0, 1]), ['cat', 'dog'])
    """
    if split is not None and split not in SPLITS:
        raise InputError(f"split={split!r} is unknown; choose one of {', '.join(SPLITS)}.")
    images = _open(source, split) if listing is None else _open_listed(source, split, listing)
    if labels is None:
        return images
    given = read_labels(labels) if isinstance(labels, str | os.PathLike) else labels
    return images.relabelled(*indexed_labels(given, len(images)))


def _open_listed(source: Any, split: str | None, listing: str | os.PathLike[str]) -> Images:
    """Open those images of a folder that a list names."""
    if split is not None:
        raise InputError("a listing says which images are meant; leave out the split.")
    if not isinstance(source, str | os.PathLike):
        raise InputError(
            f"a listing needs the path of one folder, and got {type(source).__name__}; pass that "
            "of the listed images."
        )
    root = Path(source)
    if not root.is_dir():
        raise InputError(
            f"{printable(root)}: there is no such folder; pass that of the listed images."
        )
    with reading(printable(listing), "not a list of images", "fix it"):
        return open_listed(Path(listing), root)


def _open(source: Any, split: str | None) -> Images:
    """Open a path, several, or images that are in memory or open already."""
    if isinstance(source, str | os.PathLike):
        return _open_path(source, split, listed=False)
    if isinstance(source, Image.Image):
        return _open_loose([source], split)
    if isinstance(source, Images | np.ndarray):
        return _open_array(source, split)
    _check_is_list(source)
    return _open_list(list(source), split)


def _open_array(source: Images | AnyArray, split: str | None) -> Images:
    """Open an array of images, or a set that is open already; neither has splits."""
    if split is not None:
        raise InputError(f"an array has no split {split!r}; leave split out.")
    if isinstance(source, Images):
        return copy.copy(source)
    return ArrayImages(source, "images")


def _open_loose(sources: list[Any], split: str | None) -> Images:
    """Open Pillow images and arrays, one per image, which have no splits."""
    if split is not None:
        raise InputError(f"images in memory have no split {split!r}; leave split out.")
    return LooseImages(sources)


def _check_is_list(source: Any) -> None:
    """Refuse a tensor, an open file, and what is not a list; say what to pass instead."""
    if array_api_compat.is_torch_array(source):
        raise InputError(
            f"a tensor of shape {tuple(source.shape)}; pass images before they are preprocessed: "
            "paths, Pillow images, or a uint8 array (n, h, w, 3). For the features that a "
            "network makes of a tensor, use judge."
        )
    if hasattr(source, "read"):
        raise InputError(f"an open file ({type(source).__name__}); pass its path.")
    if isinstance(source, bytes) or not isinstance(source, Iterable):
        raise InputError(
            f"got {type(source).__name__}; "
            "pass a path, a list of paths, an array, or Pillow images."
        )


def _open_path(source: str | os.PathLike[str], split: str | None, listed: bool) -> Images:
    """Open one path. Names start inside it, or with it where it is one of a list."""
    if not os.fspath(source):
        raise InputError("an empty path; pass '.' for the folder you are in.")
    with reading(printable(source), "not images that can be read", "fetch it again"):
        return _open_there(Path(source), split, listed)


def _open_there(path: Path, split: str | None, listed: bool) -> Images:
    try:
        return _open_kind(path, split, listed)
    except OSError as error:
        if error.errno in FULL:
            raise
        raise InputError(
            f"{printable(path)}: cannot be read ({reason_of(error)}); check its permissions."
        ) from None


def _open_kind(path: Path, split: str | None, listed: bool) -> Images:
    name = printable(path if listed else path.name)
    if path.is_dir():
        return _open_folder(path, split, f"{name}/" if listed else "")
    if not path.exists():
        raise InputError(f"{printable(path)}: there is no such file or folder; check the path.")
    if path.name.lower().endswith(".zip"):
        return open_zip(path, split, f"{name}/")
    if path.name.lower().endswith(ARCHIVES):
        return open_tar(path, split, f"{name}/")
    if split is not None:
        raise InputError(
            f"{printable(path)}: a single file has no split {split!r}; "
            f"leave out {argument('split')}."
        )
    return _open_file(path, name)


def _open_folder(path: Path, split: str | None, prefix: str) -> Images:
    """Open a folder of CIFAR, of SVHN's digits, or of images."""
    if is_cifar(path):
        return open_cifar(path, split, prefix)
    digits = {key: path / f"{key}_32x32.mat" for key in ("train", "test", "extra")}
    there = {key: file for key, file in digits.items() if file.is_file()}
    if not there:
        return open_folder(path, split, prefix)
    if split is not None and split not in there:
        raise InputError(
            f"{printable(path)}: {split}_32x32.mat is not there; fetch it, or choose another split."
        )
    chosen = there.values() if split is None else [there[split]]
    return joined([open_mat(file, prefix + file.name) for file in chosen])


def _open_file(path: Path, name: str) -> Images:
    """Open a file of many images, or of one."""
    if kind_of(path) in NO_IMAGES:
        raise wrong_kind(path, "images", "pass images, folders or archives of them")
    if path.suffix.lower() in _PACKS:
        return _PACKS[path.suffix.lower()](path, name)
    if is_cifar(path):
        return open_cifar(path, None, name.removesuffix(printable(path.name)))
    return _files([path])


def _open_list(sources: list[Any], split: str | None) -> Images:
    if sources and all(map(_is_loose, sources)):
        return _open_loose(sources, split)
    _check_paths(sources)
    parts: list[Images] = []
    # Neighbours that are plain images make one set: a list may have a million of them.
    for plain, run in groupby(sources, _is_plain):
        if plain and split is None:
            parts.append(_files([Path(path) for path in run]))
        else:
            parts.extend(_open_path(path, split, listed=True) for path in run)
    return joined(parts)


def _check_paths(sources: list[Any]) -> None:
    if not sources:
        raise InputError("an empty list; pass the paths of images or folders.")
    for item in sources:
        if not isinstance(item, str | os.PathLike):
            raise InputError(
                f"a list with {a_kind(item)} in it; pass paths, or one array of images."
            )


def _is_loose(item: Any) -> bool:
    return isinstance(item, Image.Image | np.ndarray)


def _is_plain(path: str | os.PathLike[str]) -> bool:
    """Tell by its name whether a path is a single image; others are opened one by one."""
    return os.fspath(path).lower().endswith(IMAGE_ENDINGS) and os.path.isfile(path)  # noqa: PTH113 (never raises)


def _files(paths: list[Path]) -> FileImages:
    files = [str(path) for path in paths]
    names = [printable(path) for path in paths]
    return FileImages(files, names, [printable(path.name) for path in paths])
