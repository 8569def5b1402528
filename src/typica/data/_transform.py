"""From images to the numbers that a network takes: turn, resize, crop, scale, normalise."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from typica.arrays import AnyArray
from typica.as_json import digest_of
from typica.checks import is_whole
from typica.data._decode import MAX_PIXELS, to_rgb, turned
from typica.errors import InputError, border

CHANNELS = {"RGB": 3, "L": 1, "BGR": 3}  # of each mode; L is grey, BGR what OpenCV reads

_FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}


@dataclass(frozen=True)
class Preprocessing:
    """What is done to an image before the network sees it: bit for bit what torchvision does.

    The image is made grey where `mode` is "L", the shorter side is resized to `resize` pixels, the
    middle `crop` x `crop` pixels are kept, and channel c becomes (x / scale - mean[c]) / std[c] in
    float32. `std` is what `Perturb` takes as its own.

    Parameters
    ----------
    resize
        The shorter side; (height, width) is that size whatever the image's shape, None leaves
        images as they are.
    crop
        The side of the middle; None keeps all that resizing leaves.
    mean, std
        One number per channel, or one for all; 0 and 1 if left out.
    interpolation
        How pixels are resized, e.g. "bilinear" or "bicubic".
    scale
        What pixels from 0 to 255 are divided by.
    exif
        Whether a Pillow image is first turned as its EXIF orientation says, as people see it.
        torchvision does not do this; pass False for a network that was trained without it, and for
        exact comparisons.
    mode
        "RGB", "L" for one channel of grey, or "BGR" for colours in OpenCV's order.

    >>> tiny = Preprocessing(resize=2, crop=2, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))
    >>> tiny(np.full((1, 4, 6, 3), 255, dtype=np.uint8))[0, :, 0, 0]
    array([2., 2., 2.], dtype=float32)
    >>> Preprocessing(28, 28, mean=0.1307, std=0.3081, mode="L").shape
    (1, 28, 28)
    """

    resize: int | tuple[int, int] | None
    crop: int | None = None
    mean: tuple[float, ...] | float = ()
    std: tuple[float, ...] | float = ()
    interpolation: str = "bilinear"
    scale: float = 255.0
    exif: bool = True
    mode: str = "RGB"

    # Settings as JSON, for messages and help.
    EXAMPLE: ClassVar[str] = '{"resize": 28, "crop": 28, "mode": "L", "mean": 0.5, "std": 0.5}'

    @border
    def __post_init__(self) -> None:
        self._check()
        # Equal settings are to be equal objects with equal fingerprints, whether given as 1 or 1.0,
        # list or tuple, Python's or NumPy's.
        object.__setattr__(self, "mean", self._each("mean", 0.0))
        object.__setattr__(self, "std", self._each("std", 1.0))
        object.__setattr__(self, "scale", _number("scale", self.scale))
        object.__setattr__(self, "exif", bool(self.exif))
        object.__setattr__(self, "resize", _plain_size(self.resize))
        object.__setattr__(self, "crop", _plain_size(self.crop))
        self._check_numbers()

    def _check(self) -> None:
        if not isinstance(self.mode, str) or self.mode not in CHANNELS:
            raise InputError(f"mode {self.mode!r} is unknown; choose one of {', '.join(CHANNELS)}.")
        self._check_size()
        if not isinstance(self.interpolation, str) or self.interpolation not in _FILTERS:
            known = ", ".join(_FILTERS)
            raise InputError(
                f"interpolation {self.interpolation!r} is unknown; choose one of {known}."
            )
        if not isinstance(self.exif, bool | np.bool):
            raise InputError(f"exif={self.exif!r}; pass True or False.")

    def _check_size(self) -> None:
        if isinstance(self.resize, Sequence):
            counts = len(self.resize) == 2 and all(map(_is_count, self.resize))
            if not counts or math.prod(self.resize) > MAX_PIXELS:
                raise InputError(f"resize={self.resize!r}; pass one size, or height and width.")
            most = min(self.resize)
        else:
            most = MAX_PIXELS if self.resize is None else self.resize
        least = 1 if self.crop is None else self.crop
        if not _is_count(least) or not _is_count(most) or least > most:
            raise InputError(f"crop={self.crop} of resize={self.resize}; pass 0 < crop <= resize.")

    def _each(self, name: str, default: float) -> tuple[float, ...]:
        """Return one number per channel: given once for all, for each, or not at all."""
        values = getattr(self, name)
        if _is_single(values):
            return (_number(name, values),) * self.channels
        return tuple(_number(name, value) for value in values) or (default,) * self.channels

    def _check_numbers(self) -> None:
        means, deviations = self._each("mean", 0.0), self._each("std", 1.0)
        numbers = [*means, *deviations, self.scale]
        right = len(means) == len(deviations) == self.channels
        positive = min([*deviations, self.scale]) > 0
        if not right or not positive or not all(map(math.isfinite, numbers)):
            wanted = "three means, three positive standard deviations"
            if self.channels == 1:
                wanted = "one mean, one positive standard deviation"
            raise InputError(
                f"mean={self.mean}, std={self.std}, scale={self.scale}; "
                f"pass {wanted} and a positive scale."
            )

    @property
    def channels(self) -> int:
        """How many channels the network is given."""
        return CHANNELS[self.mode]

    @property
    def shape(self) -> tuple[int | None, ...]:
        """What one image becomes, (channels, height, width); None where it depends on the image."""
        return (self.channels, *(self._size() or (None, None)))

    def _size(self) -> tuple[int, int] | None:
        """Return the height and width that every image ends up with, if they are all the same."""
        if self.crop is not None:
            return self.crop, self.crop
        if isinstance(self.resize, tuple):
            return self.resize
        return None

    @border
    def __call__(self, images: Any) -> NDArray[np.float32]:
        """Return (n, channels, height, width) float32 from uint8 images (n, h, w, 3).

        A list of Pillow images or arrays will do as well.
        """
        if isinstance(images, np.ndarray) and images.ndim == 4 and self._fits(images.shape[1:]):
            return self.normalised(images)
        if isinstance(images, Image.Image) or (isinstance(images, np.ndarray) and images.ndim == 3):
            raise InputError("got a single image; pass a list of images, or image[None].")
        if not isinstance(images, Iterable):
            raise InputError(f"got {type(images).__name__}; pass uint8 images (n, h, w, 3).")
        return self.normalised(self.stacked([self.pixels(image) for image in images]))

    @border
    def stacked(self, images: Sequence[NDArray[np.uint8]]) -> NDArray[np.uint8]:
        """Return images as `pixels` gives them as one array (n, h, w, channels); n may be 0."""
        if not images:
            return np.zeros((0, *(self._size() or (0, 0)), self.channels), dtype=np.uint8)
        sizes = {image.shape[:2] for image in images}
        if len(sizes) > 1:
            shown = " and ".join(f"{width} x {height}" for height, width in sorted(sizes)[:2])
            raise InputError(
                f"images of {len(sizes)} sizes, {shown}, which do not fit in one "
                "batch; give the transform resize and crop."
            )
        return np.stack(images)

    @border
    def pixels(self, image: Any) -> NDArray[np.uint8]:
        """Return one image turned, in its mode, resized and cropped: (h, w, channels).

        image: a Pillow image or uint8 (h, w, 3).

        >>> Preprocessing(resize=4, crop=2).pixels(Image.new("L", (40, 30))).shape
        (2, 2, 3)
        """
        if isinstance(image, Image.Image):
            upright = turned(image) if self.exif else image
            return self._made(upright if upright.mode == "RGB" else to_rgb(upright))
        array = np.asarray(image)
        if array.ndim != 3 or array.shape[2] != 3 or 0 in array.shape:
            raise InputError(f"an image of shape {array.shape}; pass (height, width, 3).")
        _check_bytes(array)
        if self._fits(array.shape):
            return array
        return self._made(Image.fromarray(array))

    def _made(self, rgb: Image.Image) -> NDArray[np.uint8]:
        """Return an RGB image in the mode, resized and cropped."""
        shown = rgb.convert("L") if self.mode == "L" else rgb
        pixels = np.asarray(self._crop(self._resize(shown)))
        if self.mode == "L":
            return pixels[:, :, None]
        if self.mode == "BGR":
            return np.ascontiguousarray(pixels[:, :, ::-1])
        return pixels

    @border
    def normalised(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return what the network takes, (n, c, h, w) float32, of uint8 (n, h, w, c).

        >>> ten = np.full((1, 1, 1, 3), 10, dtype=np.uint8)
        >>> Preprocessing(1, 1, scale=5).normalised(ten).ravel()
        array([2., 2., 2.], dtype=float32)
        """
        size = self._size() or pixels.shape[1:3]
        if pixels.ndim != 4 or pixels.shape[1:] != (*size, self.channels):
            height, width = self._size() or ("height", "width")
            raise InputError(
                f"pixels of shape {pixels.shape}; pass (n, {height}, {width}, {self.channels})."
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
        settings: dict[str, Any] = {}
        for name, value in dataclasses.asdict(self).items():
            settings[name] = list(value) if isinstance(value, tuple) else value
        if self.mode == "RGB":  # which settings without a mode mean
            del settings["mode"]
        return settings

    @classmethod
    @border
    def from_dict(cls, settings: Mapping[str, Any]) -> Preprocessing:
        """Return the preprocessing with these settings; those left out have their defaults.

        Where `resize` is one number, `crop` is the same if left out, so that images are square.

        >>> Preprocessing.from_dict({"resize": 32, "mean": 0.5}).shape
        (3, 32, 32)
        """
        unknown = ", ".join(sorted(set(settings) - set(cls.keys())))
        if unknown or "resize" not in settings:
            found = f"{unknown} unknown" if unknown else "resize missing"
            raise InputError(
                f"{found}; pass resize and crop, and any of {', '.join(cls.keys()[2:])}."
            )
        square = is_whole(settings["resize"])
        default = {"crop": settings["resize"]} if square else {}
        return cls(**{**default, **settings})

    @classmethod
    def keys(cls) -> tuple[str, ...]:
        """Return the names of the settings; the two that say the size come first."""
        return tuple(field.name for field in dataclasses.fields(cls))

    def fingerprint(self) -> str:
        """Return the SHA-256 of the settings as canonical JSON: equal for equal settings."""
        return digest_of(self.to_dict())

    def _fits(self, shape: tuple[int, ...]) -> bool:
        """Tell whether an image (h, w, 3) stays as it is."""
        if self.mode != "RGB" or len(shape) != 3 or shape[2] != 3:
            return False
        if self.resize is None:
            return self.crop is None
        return shape[:2] == self._size() and self.resize in (self.crop, shape[:2])

    def _resize(self, image: Image.Image) -> Image.Image:
        size = self._resized(image)
        if size == image.size:
            return image
        return image.resize(size, _FILTERS[self.interpolation])

    def _resized(self, image: Image.Image) -> tuple[int, int]:
        """Return the width and the height that an image is brought to before it is cropped."""
        if self.resize is None:
            return image.size
        if isinstance(self.resize, tuple):
            height, width = self.resize
            return width, height
        short, long = sorted(image.size)
        if short == self.resize:
            return image.size
        other = int(self.resize * long / short)
        if self.resize * other > MAX_PIXELS:
            raise InputError(
                f"an image of {image.width} x {image.height} pixels would have "
                f"{self.resize} x {other} with its shorter side resized; "
                "cut it to a less extreme shape."
            )
        if image.width <= image.height:
            return (self.resize, other)
        return (other, self.resize)

    def _crop(self, image: Image.Image) -> Image.Image:
        if self.crop is None:
            return image
        if min(image.size) < self.crop:
            raise InputError(
                f"an image of {image.width} x {image.height} pixels, smaller than "
                f"crop={self.crop}; give the transform resize as well."
            )
        left = round((image.width - self.crop) / 2)
        top = round((image.height - self.crop) / 2)
        return image.crop((left, top, left + self.crop, top + self.crop))


def _is_count(value: Any) -> bool:
    return is_whole(value) and 0 < value <= MAX_PIXELS


def _plain_size(size: Any) -> int | tuple[int, ...] | None:
    """Return the size of images, one number or two that were checked, as Python's integers."""
    if isinstance(size, Sequence):
        return tuple(map(int, size))
    return None if size is None else int(size)


def _is_single(value: Any) -> bool:
    """Tell whether a setting is one value for all channels, be it an array without axes."""
    no_list = isinstance(value, str | bytes) or not isinstance(value, Iterable)
    return no_list or getattr(value, "ndim", 1) == 0


def _number(name: str, value: Any) -> float:
    """Return a number in the settings of a transform as a float."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        wanted = "a number" if name == "scale" else "one number, or one per channel"
        raise InputError(f"{name}={value!r} is not a number; pass {wanted}.") from None


def _check_bytes(pixels: AnyArray) -> None:
    if pixels.dtype != np.uint8:
        raise InputError(f"images of type {pixels.dtype}; pass uint8 values, 0 to 255.")
