"""From images to the numbers that a network takes: turn, resize, crop, scale, normalise."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from typica.arrays import AnyArray
from typica.data._decode import MAX_PIXELS, to_rgb, turned
from typica.errors import InputError, border

_FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}


@dataclass(frozen=True)
class Preprocessing:
    """What is done to an image before the network sees it: bit for bit what torchvision does.

    The shorter side is resized to `resize` pixels, the middle `crop` x `crop` pixels are kept, and
    channel c becomes (x / scale - mean[c]) / std[c] in float32. `std` is what `Perturb` takes as
    its own.

    exif: first turn a Pillow image as its EXIF orientation says, as people see it. torchvision does
    not by itself; pass False for a network that was trained without, and for exact comparisons.

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
    exif: bool = True

    @border
    def __post_init__(self) -> None:
        self._check()
        # Equal settings are to be equal objects with equal fingerprints, whether given as 1 or 1.0,
        # list or tuple.
        object.__setattr__(self, "mean", tuple(map(float, self.mean)))
        object.__setattr__(self, "std", tuple(map(float, self.std)))
        object.__setattr__(self, "scale", float(self.scale))

    def _check(self) -> None:
        whole = isinstance(self.crop, int) and isinstance(self.resize, int)
        if not whole or not 0 < self.crop <= self.resize:
            raise InputError(f"crop={self.crop} of resize={self.resize}; pass 0 < crop <= resize.")
        if self.interpolation not in _FILTERS:
            known = ", ".join(_FILTERS)
            raise InputError(
                f"interpolation {self.interpolation!r} is unknown; choose one of {known}."
            )
        numbers = [*self.mean, *self.std, self.scale]
        finite = len(self.mean) == len(self.std) == 3 and all(map(math.isfinite, numbers))
        if not finite or min(numbers[3:]) <= 0:
            raise InputError(
                f"mean={self.mean}, std={self.std}, scale={self.scale}; "
                "pass three means, three positive standard deviations and a positive scale."
            )
        if not isinstance(self.exif, bool):
            raise InputError(f"exif={self.exif!r}; pass True or False.")

    def __call__(self, images: Any) -> NDArray[np.float32]:
        """Return (n, 3, crop, crop) float32 from uint8 images (n, h, w, 3).

        A list of Pillow images or arrays will do as well.
        """
        if isinstance(images, np.ndarray) and images.ndim == 4 and self._fits(images.shape[1:]):
            return self.normalised(images)
        if isinstance(images, Image.Image) or (isinstance(images, np.ndarray) and images.ndim == 3):
            raise InputError(
                "Preprocessing: got a single image; pass a list of images, or image[None]."
            )
        if not isinstance(images, Iterable):
            raise InputError(
                f"Preprocessing: got {type(images).__name__}; pass uint8 images (n, h, w, 3)."
            )
        return self.normalised(self.stacked([self.pixels(image) for image in images]))

    def stacked(self, images: Sequence[NDArray[np.uint8]]) -> NDArray[np.uint8]:
        """Return images as `pixels` gives them as one array (n, crop, crop, 3); n may be 0."""
        if not images:
            return np.zeros((0, self.crop, self.crop, 3), dtype=np.uint8)
        return np.stack(images)

    def pixels(self, image: Any) -> NDArray[np.uint8]:
        """Return one image turned, RGB, resized and cropped: (crop, crop, 3).

        image: a Pillow image or uint8 (h, w, 3).

        >>> Preprocessing(resize=4, crop=2).pixels(Image.new("L", (40, 30))).shape
        (2, 2, 3)
        """
        if isinstance(image, Image.Image):
            upright = turned(image) if self.exif else image
            rgb = upright if upright.mode == "RGB" else to_rgb(upright)
            return np.asarray(self._crop(self._resize(rgb)))
        array = np.asarray(image)
        if array.ndim != 3 or array.shape[2] != 3 or 0 in array.shape:
            raise InputError(
                f"Preprocessing: an image of shape {array.shape}; pass (height, width, 3)."
            )
        _check_bytes(array)
        if self._fits(array.shape):
            return array
        return np.asarray(self._crop(self._resize(Image.fromarray(array))))

    def normalised(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return what the network takes, (n, 3, crop, crop) float32, from uint8 (n, crop, crop, 3).

        >>> ten = np.full((1, 1, 1, 3), 10, dtype=np.uint8)
        >>> Preprocessing(1, 1, scale=5).normalised(ten).ravel()
        array([2., 2., 2.], dtype=float32)
        """
        if pixels.ndim != 4 or not self._fits(pixels.shape[1:], resized=True):
            raise InputError(
                f"Preprocessing: pixels of shape {pixels.shape}; "
                f"pass (n, {self.crop}, {self.crop}, 3)."
            )
        _check_bytes(pixels)
        mean = np.array(self.mean, dtype=np.float32)[:, None, None]
        std = np.array(self.std, dtype=np.float32)[:, None, None]
        # The order and the rounding of torchvision's ToTensor and Normalize.
        values = np.moveaxis(pixels, 3, 1).astype(np.float32, order="C")
        values /= np.float32(self.scale)
        values -= mean
        values /= std
        return values

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as JSON values; `from_dict` takes them back.

        >>> Preprocessing.from_dict(Preprocessing(40, 32).to_dict()) == Preprocessing(40, 32)
        True
        """
        settings = dataclasses.asdict(self)
        return {**settings, "mean": list(self.mean), "std": list(self.std)}

    @classmethod
    @border
    def from_dict(cls, settings: Mapping[str, Any]) -> Preprocessing:
        """Return the preprocessing with these settings; those left out have their defaults."""
        unknown = ", ".join(sorted(set(settings) - set(cls.keys())))
        missing = ", ".join(sorted({"resize", "crop"} - set(settings)))
        if unknown or missing:
            found = f"{unknown} unknown" if unknown else f"{missing} missing"
            raise InputError(
                f"{found}; pass resize and crop, and what is wanted of {', '.join(cls.keys()[2:])}."
            )
        try:
            return cls(**settings)
        except TypeError as error:
            raise InputError(
                f"a value of the wrong type ({error}); "
                "pass whole numbers for resize and crop, three numbers each for mean and std."
            ) from None

    @classmethod
    def keys(cls) -> tuple[str, ...]:
        """Return the names of the settings; the two without a default come first."""
        return tuple(field.name for field in dataclasses.fields(cls))

    def fingerprint(self) -> str:
        """Return the SHA-256 of the settings as canonical JSON: equal for equal settings."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def _fits(self, shape: tuple[int, ...], resized: bool = False) -> bool:
        """Tell whether an image of this shape stays as it is, before resizing or after."""
        return shape == (self.crop, self.crop, 3) and (resized or self.crop == self.resize)

    def _resize(self, image: Image.Image) -> Image.Image:
        short, long = sorted(image.size)
        if short == self.resize:
            return image
        other = int(self.resize * long / short)
        if self.resize * other > MAX_PIXELS:
            raise InputError(
                f"Preprocessing: an image of {image.width} x {image.height} pixels would have "
                f"{self.resize} x {other} with its shorter side resized; "
                "cut it to a less extreme shape."
            )
        size = (self.resize, other) if image.width <= image.height else (other, self.resize)
        return image.resize(size, _FILTERS[self.interpolation])

    def _crop(self, image: Image.Image) -> Image.Image:
        left = round((image.width - self.crop) / 2)
        top = round((image.height - self.crop) / 2)
        return image.crop((left, top, left + self.crop, top + self.crop))


def _check_bytes(pixels: AnyArray) -> None:
    if pixels.dtype != np.uint8:
        raise InputError(
            f"Preprocessing: images of type {pixels.dtype}; pass uint8 values, 0 to 255."
        )
