"""One image out of bytes.

Every mode, every orientation, and everything that is not an image, or no longer.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import threading
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from helpers.images import array, encoded, random_pixels
from PIL import Image

import typica
from typica.data import ImageError, _decode, decode
from typica.data._decode import to_rgb, turned


def smooth() -> Image.Image:
    """An image that compresses as photos do."""
    y, x = np.mgrid[:64, :96]
    return Image.fromarray(np.stack([2 * x, 3 * y, x + y], axis=2).astype(np.uint8))


def test_modes_as_convert_makes_them():
    colours = Image.fromarray(random_pixels(9, 7)).quantize(16)
    images = {
        "rgb": encoded(random_pixels(9, 7)),
        "cmyk": encoded(smooth().convert("CMYK"), "jpeg"),
        "grey": encoded(smooth().convert("L")),
        "grey and alpha": encoded(Image.fromarray(random_pixels(9, 7)).convert("LA")),
        "alpha": encoded(
            np.dstack([random_pixels(9, 7), np.arange(63, dtype=np.uint8).reshape(9, 7)])
        ),
        "palette": encoded(colours),
        "palette, one colour transparent": encoded(colours, transparency=3),
        "palette, colours half transparent": encoded(
            colours, transparency=bytes(range(0, 160, 10))
        ),
        "one bit": encoded(smooth().convert("1")),
        "webp": encoded(smooth(), "webp"),
        "bmp": encoded(smooth(), "bmp"),
        "jpeg 2000": encoded(smooth(), "jpeg2000"),
        "ycbcr": encoded(smooth().convert("YCbCr"), "tiff"),
        "ppm": encoded(smooth(), "ppm"),
    }
    for name, data in images.items():
        got = decode(data, name=name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = Image.open(io.BytesIO(data)).convert("RGB")
        assert got.mode == "RGB" and np.array_equal(array(got), array(expected)), name
        assert got.info == {}


def test_deep_greys_are_scaled_not_clipped():
    deep = np.linspace(0, 65535, 12 * 10).astype(np.uint16).reshape(12, 10)
    for data in (
        encoded(Image.fromarray(deep)),
        encoded(Image.fromarray(deep), "tiff"),
        encoded(Image.fromarray(deep.astype(">u2")), "tiff"),
        encoded(Image.fromarray(deep.astype(np.int32)), "tiff"),
    ):
        got = array(decode(data))
        assert np.array_equal(got[..., 1], np.rint(deep / 257).astype(np.uint8))
    assert array(decode(encoded(Image.fromarray(deep))))[-1, -1, 0] == 255
    same = np.arange(256, dtype=np.uint16).reshape(16, 16) * 257
    assert np.array_equal(array(to_rgb(Image.fromarray(same)))[..., 0].ravel(), np.arange(256))
    for values, message in (([[-1, 5]], "from -1 to 5"), ([[0, 65536]], "from 0 to 65536")):
        data = encoded(Image.fromarray(np.array(values, dtype=np.int32)), "tiff")
        with pytest.raises(
            ImageError, match=f"x.tif: grey values {message}, beyond 0 ... 65535; save it with"
        ):
            decode(data, name="x.tif")


def test_floats_mean_zero_to_one():
    values = np.linspace(0, 1, 256, dtype=np.float32).reshape(16, 16)
    got = array(decode(encoded(Image.fromarray(values), "tiff")))
    assert np.array_equal(got[..., 2].ravel(), np.arange(256))
    for value in (255.0, -0.5, np.nan, np.inf):
        data = encoded(Image.fromarray(np.array([[0, value]], dtype=np.float32)), "tiff")
        with pytest.raises(ImageError, match=r"beyond 0 ... 1; save it with 8 bits"):
            decode(data)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_is_applied_or_kept(orientation):
    stored = random_pixels(5, 8)
    seen = {
        1: stored,
        2: stored[:, ::-1],
        3: stored[::-1, ::-1],
        4: stored[::-1],
        5: stored.transpose(1, 0, 2),
        6: stored[::-1].transpose(1, 0, 2),
        7: stored[::-1, ::-1].transpose(1, 0, 2),
        8: stored.transpose(1, 0, 2)[::-1],
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(stored, exif=exif)
    assert np.array_equal(array(decode(data, exif=True)), seen)
    plain = decode(data)
    assert np.array_equal(array(plain), stored)
    assert np.array_equal(array(turned(plain)), seen)
    again = turned(decode(data, exif=True))
    assert np.array_equal(array(again), seen)  # not twice


def test_broken_metadata_do_not_matter():
    for exif in (
        b"Exif\0\0MM\0*\0\0\0\x08\xff\xff",
        b"Exif\0\0garbage",
        b"Exif\0\0II*\0\xff\xff\xff\xff",
    ):
        data = encoded(smooth(), "jpeg", exif=exif)
        assert decode(data, exif=True).size == (96, 64)
    image = Image.new("RGB", (96, 64))
    image.info["Raw profile type exif"] = "old\nImageMagick\nform\nno hexadecimals"
    assert turned(image).size == (96, 64)


def test_premultiplied_alpha():
    for plain, premultiplied in (("RGBA", "RGBa"), ("LA", "La")):
        image = Image.fromarray(random_pixels(9, 7)).convert(plain)
        assert np.array_equal(
            array(to_rgb(image.convert(premultiplied))), array(image.convert("RGB"))
        )


def test_first_frame():
    frames = [Image.new("RGB", (6, 4), colour) for colour in ("red", "green", "blue")]
    for kind in ("gif", "png", "webp", "tiff"):
        data = encoded(frames[0], kind, save_all=True, append_images=frames[1:])
        assert array(decode(data))[2, 3, 0] > 250, kind


@pytest.mark.parametrize("kind", ["jpeg", "png", "gif", "bmp", "tiff", "webp", "jpeg2000", "ppm"])
def test_cut_short_anywhere(kind):
    whole = encoded(smooth(), kind)
    expected = array(decode(whole))
    refused = 0
    for length in sorted(
        {*range(0, len(whole), max(1, len(whole) // 60)), *range(len(whole) - 4, len(whole))}
    ):
        try:
            got = decode(whole[:length], name=f"cut.{kind}")
        except ImageError as error:
            assert str(error).startswith(f"cut.{kind}: ")
            refused += 1
        else:  # what was cut off held no pixels
            assert np.array_equal(array(got), expected), length
    assert refused > 30


@pytest.mark.parametrize("kind", ["jpeg", "png", "gif", "bmp", "tiff", "webp", "jpeg2000", "ppm"])
def test_damaged_anywhere(kind):
    whole = encoded(smooth(), kind)
    rng = np.random.default_rng(0)
    for _ in range(80):
        data = bytearray(whole)
        for place in rng.integers(len(whole), size=3):
            data[place] = rng.integers(256)
        with contextlib.suppress(ImageError):
            assert decode(bytes(data)).mode == "RGB"


def test_what_is_not_an_image(tmp_path):
    (tmp_path / "text.png").write_text("no image at all, only text")
    (tmp_path / "zero.jpg").touch()
    (tmp_path / "folder.png").mkdir()
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "script.eps").write_bytes(encoded(smooth(), "eps"))
    for name, message in (
        ("text.png", r"not an image in a known format \(.*PNG"),
        ("zero.jpg", "the file is empty; fetch it again or leave it out"),
        ("folder.png", "not a file; pass an image's path"),
        ("pipe.png", "not a file"),
        ("script.eps", "not an image in a known format"),
        ("absent.png", "cannot be read .No such file"),
        ("zero\0byte.png", "cannot be read .*null (byte|character)"),
    ):
        with pytest.raises(ImageError, match=message) as caught:
            decode(tmp_path / name)
        assert name in str(caught.value)
    assert issubclass(ImageError, typica.InputError)


def png_header(width: int, height: int) -> bytes:
    """A PNG that says it is large and holds next to nothing."""
    data = bytearray(encoded(Image.new("1", (8, 8))))
    data[16:24] = width.to_bytes(4, "big") + height.to_bytes(4, "big")
    data[29:33] = zlib.crc32(data[12:29]).to_bytes(4, "big")
    return bytes(data)


def test_bombs_are_refused_by_their_header(monkeypatch):
    sizes = [(2**14, 2**13 + 1), (30_000, 3_500), (2**16, 2**16)]
    with pytest.raises(
        ImageError, match=r"b.png: 16384 x 8193 pixels, more than 134,217,728 .* make it smaller"
    ):
        decode(png_header(*sizes[0]), name="b.png")
    with pytest.raises(
        ImageError, match="cut short"
    ):  # Pillow would warn, yet a camera may make such an image
        decode(png_header(*sizes[1]))
    with pytest.raises(ImageError, match="maybe a decompression bomb"):
        decode(png_header(*sizes[2]))
    with pytest.raises(ImageError, match="8 x 8 pixels, more than 63 "):
        decode(encoded(Image.new("L", (8, 8))), max_pixels=63)
    assert decode(encoded(Image.new("L", (8, 8))), max_pixels=64).size == (8, 8)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    with pytest.raises(ImageError, match="65536 x 65536 pixels, more than"):
        decode(png_header(*sizes[2]))


def test_large_files_are_refused(tmp_path, monkeypatch):
    (tmp_path / "a.png").write_bytes(encoded(smooth()))
    monkeypatch.setattr(_decode, "MAX_BYTES", 100)
    with pytest.raises(ImageError, match=r"a.png: \d+ bytes, more than 100; make it smaller"):
        decode(tmp_path / "a.png")


def warned_palette() -> bytes:
    colours = Image.fromarray(random_pixels(9, 7)).quantize(16)
    return encoded(colours, transparency=bytes(range(16)))


def test_nothing_warns_and_the_filters_are_left_alone():
    data = warned_palette()
    filters, entries = warnings.filters, list(warnings.filters)
    seen = set()

    def decoded(_: int) -> tuple[int, int]:
        size = decode(data).size
        seen.add(warnings.filters == entries)
        return size

    with ThreadPoolExecutor(8) as pool:  # where warnings are errors, as everywhere in these tests
        assert set(pool.map(decoded, range(200))) == {(7, 9)}
    assert seen == {True} and warnings.filters is filters
    with pytest.raises(UserWarning, match="Palette"):  # other programs' own use is theirs
        Image.open(io.BytesIO(data)).convert("RGB")


def test_a_users_image_keeps_its_transparency():
    with Image.open(io.BytesIO(warned_palette())) as image:
        to_rgb(image)
        assert len(image.info["transparency"]) == 16


def test_filters_of_other_threads_survive():
    data, done = warned_palette(), threading.Event()

    def decode_on() -> None:
        while not done.is_set():
            decode(data)

    with ThreadPoolExecutor(4) as pool:
        tasks = [pool.submit(decode_on) for _ in range(4)]
        try:
            for _ in range(200):
                with warnings.catch_warnings(record=True) as log:
                    warnings.simplefilter("always")
                    warnings.warn("ours", UserWarning, stacklevel=1)
                assert [str(entry.message) for entry in log] == ["ours"]
        finally:
            done.set()
        for task in tasks:
            task.result()


def test_a_large_camera_image_is_judged_by_our_limit_alone():
    with pytest.raises(ImageError) as caught:  # the header promises more than the file holds
        decode(png_header(30_000, 3_500))
    assert "Image size" not in str(caught.value)  # Pillow's warning, an error in these tests


def test_of_broken_metadata_our_own_processes_alone_are_quiet(tmp_path):
    exif = b"Exif\0\0MM\0*\0\0\0\x08\xff\xff"
    (tmp_path / "a.jpg").write_bytes(encoded(smooth(), "jpeg", exif=exif))
    opened = "from PIL import Image\nimport typica.data\nprint(Image.open('a.jpg').size)"
    decoded = "from typica.data import decode\nprint(decode('a.jpg').size)"
    ours = "import warnings\nfrom typica.warning_filters import ignore_broken_metadata\n"
    ours += f"ignore_broken_metadata()\n{decoded}"
    for code, noisy in ((opened, True), (decoded, True), (ours, False)):
        told = subprocess.run(
            [sys.executable, "-W", "always", "-c", code],
            cwd=tmp_path, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert told.stdout == "(96, 64)\n"
        assert ("Warning" in told.stderr) == noisy, told.stderr


def test_broken_metadata_is_no_error_where_warnings_are(tmp_path):
    exif = b"Exif\0\0MM\0*\0\0\0\x08\xff\xff"
    data = encoded(smooth(), "jpeg", exif=exif)
    with pytest.raises(UserWarning):
        Image.open(io.BytesIO(data)).getexif()
    assert decode(data, exif=True).size == (96, 64)
