"""From pictures to the numbers that a network takes: resize, crop, scale, normalise. Needs Pillow and NumPy alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from typica.errors import InputError

_FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}


@dataclass(frozen=True)
class Preprocessing:
    """What is done to a picture before the network sees it, as torchvision does it, bit for bit on the same Pillow.

    The shorter side is resized to `resize` pixels, the middle `crop` x `crop` pixels are kept, and channel c
    becomes (x / scale - mean[c]) / std[c] in float32. `std` is what `Perturb` takes as its own.

    >>> tiny = Preprocessing(resize=2, crop=2, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))
    >>> tiny(np.full((1, 4, 6, 3), 255, dtype=np.uint8))[0, :, 0, 0]
    array([2., 2., 2.], dtype=float32)
    """

    resize: int
    crop: int
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (1.0, 1.0, 1.0)
    interpolation: str = "bilinear"
    scale: float = 255.0

    def __post_init__(self) -> None:
        where = "Preprocessing"
        if not 0 < self.crop <= self.resize:
            raise InputError(f"{where}: crop={self.crop} of resize={self.resize}; pass 0 < crop <= resize.")
        if self.interpolation not in _FILTERS:
            raise InputError(
                f"{where}: interpolation {self.interpolation!r} is unknown; choose one of {', '.join(_FILTERS)}."
            )
        if len(self.mean) != 3 or len(self.std) != 3 or not self.scale > 0 or not all(s > 0 for s in self.std):
            raise InputError(
                f"{where}: mean={self.mean}, std={self.std}, scale={self.scale}; "
                "pass three means, three positive standard deviations and a positive scale."
            )

    def __call__(self, images: Any) -> NDArray[np.float32]:
        """Return (n, 3, crop, crop) float32 from uint8 pictures (n, h, w, 3), or a list of Pillow images or arrays."""
        pixels = self._cropped(images)
        mean, std = (np.array(values, dtype=np.float32)[:, None, None] for values in (self.mean, self.std))
        # Values first, layout second: the order of torchvision's ToTensor and Normalize, whose rounding this shares.
        scaled = np.moveaxis(pixels, 3, 1).astype(np.float32) / np.float32(self.scale)
        return np.ascontiguousarray((scaled - mean) / std)

    def _cropped(self, images: Any) -> NDArray[np.uint8]:
        if (
            isinstance(images, np.ndarray)
            and images.shape[1:] == (self.crop, self.crop, 3)
            and self.crop == self.resize
        ):
            return _checked(images)
        if isinstance(images, Image.Image) or (isinstance(images, np.ndarray) and images.ndim == 3):
            raise InputError("Preprocessing: got a single picture; pass a list of pictures, or image[None].")
        if not isinstance(images, Iterable):
            raise InputError(f"Preprocessing: got {type(images).__name__}; pass uint8 pictures (n, h, w, 3).")
        pictures = [np.asarray(self._crop(self._resize(_picture(image)))) for image in images]
        if not pictures:
            return np.zeros((0, self.crop, self.crop, 3), dtype=np.uint8)
        return np.stack(pictures)

    def _resize(self, picture: Image.Image) -> Image.Image:
        short, long = sorted(picture.size)
        if short == self.resize:
            return picture
        other = int(self.resize * long / short)
        size = (self.resize, other) if picture.width <= picture.height else (other, self.resize)
        return picture.resize(size, _FILTERS[self.interpolation])

    def _crop(self, picture: Image.Image) -> Image.Image:
        left, top = (round((length - self.crop) / 2) for length in picture.size)
        return picture.crop((left, top, left + self.crop, top + self.crop))


def _checked(pixels: NDArray[Any]) -> NDArray[np.uint8]:
    if pixels.dtype != np.uint8:
        raise InputError(f"Preprocessing: pictures of type {pixels.dtype}; pass uint8 values, 0 to 255.")
    return pixels


def _picture(image: Any) -> Image.Image:
    if isinstance(image, Image.Image):
        return image.convert("RGB")
    pixels = np.asarray(image)
    if pixels.ndim != 3 or pixels.shape[2] != 3 or 0 in pixels.shape:
        raise InputError(f"Preprocessing: a picture of shape {pixels.shape}; pass (height, width, 3).")
    return Image.fromarray(_checked(pixels))
