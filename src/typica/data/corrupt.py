"""Images that are corrupted or mixed: strangers made of known ones, to choose a detector by.

Each function takes uint8 images, (n, h, w, 3) or greys (n, h, w, 1), and a seed, and returns as
many: image i of the result depends on image i, the seed and i alone. The input is never written to.
`mixed` joins images of two classes.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from typica.arrays import AnyArray
from typica.errors import InputError, border, counted

Pixels = NDArray[np.uint8]
Corruption = Callable[[Pixels, int], Pixels]

_NOISE = 0.15  # standard deviation, of the range of values
_BLUR = 1 / 20  # radius, of the shorter side
_CONTRAST = 0.25  # what is left of the difference from the mean
_PIXELS = 4  # pixels that become one, along either side of 32; the more, the larger the image
_QUALITY = 7  # of JPEG, 1 to 95
_GRID = 4  # patches along either side


@border
def gaussian_noise(pixels: Pixels, seed: int = 0) -> Pixels:
    """Add normal noise with a standard deviation of 0.15 of the range to every value.

    >>> grey = np.full((2, 8, 8, 3), 128, dtype=np.uint8)
    >>> bool(np.any(gaussian_noise(grey) != grey))
    True
    """

    def one(image: Pixels, rng: np.random.Generator) -> Pixels:
        noise = rng.normal(scale=255 * _NOISE, size=image.shape)
        return np.clip(np.rint(image + noise), 0, 255).astype(np.uint8)

    return _each(pixels, seed, one)


@border
def blur(pixels: Pixels, seed: int = 0) -> Pixels:
    """Blur with a Gaussian whose radius is 1/20 of the shorter side."""

    def one(image: Pixels, _: np.random.Generator) -> Pixels:
        radius = _BLUR * min(image.shape[:2])
        return np.asarray(Image.fromarray(image).filter(ImageFilter.GaussianBlur(radius)))

    return _each(pixels, seed, one)


@border
def contrast(pixels: Pixels, seed: int = 0) -> Pixels:
    """Take three quarters of the contrast away: x becomes m + (x - m) / 4, m the mean colour."""

    def one(image: Pixels, _: np.random.Generator) -> Pixels:
        mean = image.mean(axis=(0, 1))
        return np.asarray(np.rint(mean + _CONTRAST * (image - mean)), dtype=np.uint8)

    return _each(pixels, seed, one)


@border
def pixelate(pixels: Pixels, seed: int = 0) -> Pixels:
    """Make squares of one colour, about 8 along the shorter side.

    >>> noise = np.random.default_rng(0).integers(256, size=(1, 32, 32, 3), dtype=np.uint8)
    >>> len(np.unique(pixelate(noise)[0, :4, :4, 0]))
    1
    """

    def one(image: Pixels, _: np.random.Generator) -> Pixels:
        fine = Image.fromarray(image)
        step = min(fine.size) * _PIXELS / 32
        small = (max(1, round(fine.width / step)), max(1, round(fine.height / step)))
        coarse = fine.resize(small, Image.Resampling.BOX)
        return np.asarray(coarse.resize(fine.size, Image.Resampling.NEAREST))

    return _each(pixels, seed, one)


@border
def jpeg(pixels: Pixels, seed: int = 0) -> Pixels:
    """Compress as JPEG of quality 7 out of 95 and decompress."""

    def one(image: Pixels, _: np.random.Generator) -> Pixels:
        file = io.BytesIO()
        Image.fromarray(image).save(file, "jpeg", quality=_QUALITY)
        with Image.open(file) as compressed:
            return np.asarray(compressed)

    return _each(pixels, seed, one)


@border
def patch_shuffle(pixels: Pixels, seed: int = 0) -> Pixels:
    """Cut the image into 4 x 4 patches and put them back in another order.

    A remainder at the edges stays.
    """

    def one(image: Pixels, rng: np.random.Generator) -> Pixels:
        rows, columns = min(_GRID, image.shape[0]), min(_GRID, image.shape[1])
        height, width = image.shape[0] // rows, image.shape[1] // columns
        tops, lefts = range(0, rows * height, height), range(0, columns * width, width)
        places = list(itertools.product(tops, lefts))
        result = image.copy()
        # A cycle through all patches in random order leaves none in its place.
        order = rng.permutation(len(places))
        for here, there in zip(order, np.roll(order, 1), strict=True):
            (top, left), (y, x) = places[here], places[there]
            result[top : top + height, left : left + width] = image[y : y + height, x : x + width]
        return result

    return _each(pixels, seed, one)


@border
def rotated(pixels: Pixels, seed: int = 0) -> Pixels:
    """Turn the image a quarter to the left; upside down where it is not square.

    >>> corner = np.zeros((1, 2, 2, 3), dtype=np.uint8)
    >>> corner[0, 0, 0] = 255
    >>> rotated(corner)[0, :, :, 0]
    array([[  0,   0],
           [255,   0]], dtype=uint8)
    """

    def one(image: Pixels, _: np.random.Generator) -> Pixels:
        height, width = image.shape[:2]
        return np.rot90(image, 1 if height == width else 2)

    return _each(pixels, seed, one)


@border
def mixed(pixels: Pixels, labels: Any, seed: int = 0, how: str = "mean") -> Pixels:
    """Join each image with one of another class: their mean, or a left half and a right half.

    The partner is drawn evenly from the images of other classes.

    Parameters
    ----------
    pixels
        The images.
    labels
        (n,), of at least two classes.
    seed
        Chooses the partners.
    how
        "mean" or "halves".

    >>> two = np.stack([np.zeros((2, 2, 3)), np.full((2, 2, 3), 200)]).astype(np.uint8)
    >>> mixed(two, [0, 1])[0, 0, 0], mixed(two, [0, 1], how="halves")[0, 0, :, 0]
    (array([100, 100, 100], dtype=uint8), array([  0, 200], dtype=uint8))
    """
    pixels, labels = _checked(pixels), np.asarray(labels)
    if labels.shape != (len(pixels),):
        raise InputError(
            f"labels of shape {labels.shape} for {counted(len(pixels), 'image')}; "
            "one per image is needed."
        )
    if how not in ("mean", "halves"):
        raise InputError(f"how={how!r}; choose mean or halves.")
    partners = pixels[_partners_to_mix(labels, seed)]
    if how == "mean":
        return ((pixels.astype(np.uint16) + partners + 1) // 2).astype(np.uint8)
    result = pixels.copy()
    half = pixels.shape[2] // 2
    result[:, :, half:] = partners[:, :, half:]
    return result


CORRUPTIONS: dict[str, Corruption] = {
    "blur": blur,
    "contrast": contrast,
    "gaussian_noise": gaussian_noise,
    "jpeg": jpeg,
    "patch_shuffle": patch_shuffle,
    "pixelate": pixelate,
    "rotated": rotated,
}


@border
def corrupted_versions(pixels: Pixels, labels: AnyArray | None, seed: int = 0) -> dict[str, Pixels]:
    """Return corrupted versions of images by kind and, where labels are known, mixed ones."""
    made = {name: corrupted(pixels, seed) for name, corrupted in CORRUPTIONS.items()}
    if labels is not None:
        made["mixed"] = mixed(pixels, labels, seed)
        made["halves"] = mixed(pixels, labels, seed, how="halves")
    return made


def _partners_to_mix(labels: AnyArray, seed: int) -> NDArray[np.int64]:
    """Return for each image the one, of another label, that `mixed` mixes into it."""
    order = np.argsort(labels, kind="stable")
    ordered = labels[order]
    first = np.searchsorted(ordered, labels, side="left")
    count = np.searchsorted(ordered, labels, side="right") - first
    if not len(labels) or np.any(count == len(labels)):
        raise InputError("the images are of one class; pass images of two classes or more.")
    # A draw among the others: positions from the row's own class on are moved past that class.
    drawn = np.random.default_rng(seed).integers(len(labels) - count)
    return np.asarray(order[drawn + np.where(drawn >= first, count, 0)])


def _each(
    pixels: Pixels, seed: int, one: Callable[[Pixels, np.random.Generator], Pixels]
) -> Pixels:
    pixels = _checked(pixels)
    result = np.empty_like(pixels, order="C")
    channels = pixels.shape[3]
    for i, image in enumerate(pixels):
        coloured = np.repeat(image, 3, axis=2) if channels == 1 else np.ascontiguousarray(image)
        changed = one(coloured, np.random.default_rng([seed, i]))
        result[i] = changed[:, :, :channels]
    return result


def _checked(pixels: Any) -> Pixels:
    array = np.asarray(pixels)
    images = array.ndim == 4 and array.shape[3] in (1, 3) and 0 not in array.shape[1:]
    if array.dtype != np.uint8 or not images:
        raise InputError(
            f"images of shape {array.shape} and type {array.dtype}; "
            "pass uint8 (n, height, width, 3)."
        )
    return array
