"""One image out of a file's bytes, safely: checked before it is decoded, RGB after.

| in the file                | in the image                                                        |
|----------------------------|---------------------------------------------------------------------|
| alpha, transparent colours | dropped, as convert("RGB") does: benchmark numbers rest on that     |
| 16-bit grey, 32-bit grey   | v / 257: 0 ... 65535 becomes 0 ... 255; Pillow would clip at 255    |
| floats                     | 255 v for values in 0 ... 1; nothing says what others mean          |
| several frames             | the first                                                           |
| EXIF orientation           | applied when asked, else left; Pillow itself applies that of a TIFF |

What cannot be decoded is an ImageError. Of broken metadata Pillow warns as it does in any program,
which `typica.warning_filters` hides where the process is ours. Filters belong to the whole process,
and several threads decode images, so none is set here.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import stat
import struct
import threading
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from typica.arrays import AnyArray
from typica.errors import InputError
from typica.files import printable

MAX_PIXELS = 2**27  # 512 MiB as Pillow holds them; more than any camera takes, less than a bomb
MAX_BYTES = 2**30  # of one image's file
_STRIP = 2**22  # pixels that are converted at a time

# Those with a signature of their own. EPS, which runs Ghostscript, and the rarely tested rest stay
# out. JPEG brings MPO with it.
# The plugins that know them: Pillow's own `init` loads some thirty more.
_PLUGINS = ("Avif", "Bmp", "Gif", "Jpeg", "Jpeg2K", "Png", "Ppm", "Tiff", "WebP")
_FORMATS = ("AVIF", "BMP", "GIF", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")
ORIENTATION = 0x0112
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


_ONE_AT_A_TIME = threading.Lock()


class ImageError(InputError):
    """An image that cannot be decoded, or its file not read: the message names the file."""


def decode(
    source: bytes | str | os.PathLike[str],
    *,
    name: str | None = None,
    exif: bool = False,
    max_pixels: int = MAX_PIXELS,
) -> Image.Image:
    """Return the RGB image in a file or in a file's bytes; raise ImageError if there is none.

    Parameters
    ----------
    source
        A path, or the bytes of a file.
    name
        What errors call it, by default the path.
    exif
        Whether to turn it as its EXIF orientation says; if not, it keeps the orientation.
    max_pixels
        An image with more is refused by its header alone.

    >>> file = io.BytesIO()
    >>> Image.new("L", (3, 2), 128).save(file, "png")
    >>> decode(file.getvalue()).getpixel((0, 0))
    (128, 128, 128)
    """
    if isinstance(source, bytes):
        data, name = source, name or "bytes"
    else:
        data, name = read_bytes(source, name)
    if not data:
        raise ImageError(f"{name}: the file is empty; fetch it again or leave it out.")
    try:
        rgb, orientation = _decoded(data, name, max_pixels)
    except Warning:  # of broken metadata, in a program that turns warnings into errors
        with _ONE_AT_A_TIME, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rgb, orientation = _decoded(data, name, max_pixels)
    if exif:
        return _turn(rgb, orientation)
    if orientation in _TURNS:
        rgb.getexif()[ORIENTATION] = orientation
    return rgb


def read_bytes(path: str | os.PathLike[str], name: str | None = None) -> tuple[bytes, str]:
    """Return a file's bytes and its name in messages; raise ImageError if it cannot be read."""
    name = name or printable(path)
    try:
        status = Path(path).stat()
        if not stat.S_ISREG(status.st_mode):  # reading a pipe would wait for ever
            raise ImageError(f"{name}: not a file; pass an image's path.")
        if status.st_size > MAX_BYTES:
            raise ImageError(
                f"{name}: {status.st_size:,} bytes, more than {MAX_BYTES:,}; make it smaller."
            )
        return Path(path).read_bytes(), name
    except ImageError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a path with a zero byte
        reason = getattr(error, "strerror", None) or error
        raise ImageError(
            f"{name}: cannot be read ({reason}); check the path and its permissions."
        ) from None


def to_rgb(image: Image.Image, name: str = "image") -> Image.Image:
    """Return the pixels of a Pillow image of any mode as a new RGB image without metadata.

    The table above says how.

    >>> deep = Image.fromarray(np.array([[0, 32896, 65535]], dtype=np.uint16))
    >>> np.asarray(to_rgb(deep))[0, :, 0]
    array([  0, 128, 255], dtype=uint8)
    """
    with _as_image_error(name):
        if image.mode.startswith("I"):
            image = Image.fromarray(_bytes_of_integers(np.asarray(image), name))
        elif image.mode == "F":
            image = _strip_by_strip(image, name)
        elif image.mode in ("La", "RGBa"):  # premultiplied: these can only become LA and RGBA
            image = image.convert(image.mode.upper())
        rgb = _without_transparency(image).convert("RGB")
    rgb.info = {}
    return rgb


def loaded(image: Image.Image, name: str) -> Image.Image:
    """Return a Pillow image whose pixels have been read; raise ImageError if they cannot be."""
    with _as_image_error(name):
        image.load()
    return image


def turned(image: Image.Image) -> Image.Image:
    """Return an image as its EXIF orientation says it should be seen.

    One without an orientation, or with a broken one, stays as it is.
    """
    with _as_image_error("image"):
        image.load()  # Pillow turns a TIFF here, and takes its orientation away
        return _turn(image, _orientation(image))


def _decoded(data: bytes, name: str, max_pixels: int) -> tuple[Image.Image, int]:
    """Return the RGB image in a file's bytes as it is stored, and its orientation."""
    with _as_image_error(name), _opened(data) as image:
        _check_size(image, max_pixels, name)
        image.load()
        return to_rgb(image, name), _orientation(image)


def _opened(data: bytes) -> Image.Image:
    """Open an image by its signature.

    Image.open does that too, but checks the size against a limit of the whole process, and warns;
    ours is a parameter.
    """
    for name in _formats():
        factory, accepts = Image.OPEN[name]
        try:
            # Pillow answers with a text where it was built without the format.
            known = True if accepts is None else accepts(data[:16])
            if known and not isinstance(known, str):
                return factory(io.BytesIO(data), "")
        except (SyntaxError, IndexError, TypeError, struct.error):  # how Pillow's formats say no
            continue
    raise UnidentifiedImageError


def _check_size(image: Image.Image, max_pixels: int, name: str) -> None:
    width, height = image.size
    if not width * height:
        raise ImageError(f"{name}: {width} x {height} pixels; leave it out.")
    if width * height > max_pixels:
        raise ImageError(
            f"{name}: {width} x {height} pixels, more than {max_pixels:,} and maybe a "
            "decompression bomb; make it smaller."
        )


def _without_transparency(image: Image.Image) -> Image.Image:
    """Return an image whose palette has no transparent colours, about which Pillow would warn."""
    if "transparency" not in image.info:
        return image
    opaque = image.copy()
    del opaque.info["transparency"]
    return opaque


def _orientation(image: Image.Image) -> int:
    try:
        return int(image.getexif().get(ORIENTATION, 1))
    except Exception:  # of many kinds: broken metadata does not make the pixels unreadable
        return 1


def _turn(image: Image.Image, orientation: int) -> Image.Image:
    if orientation in _TURNS:
        return image.transpose(_TURNS[orientation])
    return image


def _bytes_of_integers(values: AnyArray, name: str) -> NDArray[np.uint8]:
    low, high = int(values.min()), int(values.max())
    if low < 0 or high > 65535:
        raise ImageError(
            f"{name}: grey values from {low} to {high}, beyond 0 ... 65535; "
            "save it with 8 or 16 bits."
        )
    return ((values.astype(np.uint32) + 128) // 257).astype(np.uint8)


def _strip_by_strip(image: Image.Image, name: str) -> Image.Image:
    """Return an image of floats in bytes; a whole one as float64 would take gigabytes."""
    width, height = image.size
    grey = Image.new("L", image.size)
    rows = max(1, _STRIP // width)
    for top in range(0, height, rows):
        strip = image.crop((0, top, width, min(top + rows, height)))
        values = _bytes_of_floats(np.asarray(strip), name)
        grey.paste(Image.fromarray(values), (0, top))
    return grey


def _bytes_of_floats(values: AnyArray, name: str) -> NDArray[np.uint8]:
    low, high = float(values.min()), float(values.max())
    if not (low >= 0 and high <= 1):
        raise ImageError(
            f"{name}: float values from {low:g} to {high:g}, beyond 0 ... 1; save it with 8 bits."
        )
    return np.rint(255 * values.astype(np.float64)).astype(np.uint8)


@cache
def _formats() -> tuple[str, ...]:
    """Return those of the formats that this Pillow knows; it fails on a name that it does not."""
    for plugin in _PLUGINS:
        with contextlib.suppress(ImportError):
            importlib.import_module(f"PIL.{plugin}ImagePlugin")
    return tuple(name for name in _FORMATS if name in Image.OPEN)


@contextlib.contextmanager
def _as_image_error(name: str) -> Iterator[None]:
    try:
        yield
    except (ImageError, Warning):
        raise
    except UnidentifiedImageError:
        known = ", ".join(_formats())
        raise ImageError(
            f"{name}: not an image in a known format ({known}); convert it or leave it out."
        ) from None
    except Image.DecompressionBombError as error:
        raise ImageError(
            f"{name}: maybe a decompression bomb ({error}); make it smaller."
        ) from None
    except Exception as error:  # Pillow's plugins raise nearly every kind for damaged files
        reason = str(error) or type(error).__name__
        raise ImageError(
            f"{name}: damaged or cut short ({reason}); fetch it again or leave it out."
        ) from None
