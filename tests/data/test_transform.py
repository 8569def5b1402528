"""Preprocessing against a reference of its own: sizes, orientations, modes, settings as JSON."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

import typica
from typica.data import Preprocessing

FILTERS = {"nearest": 0, "bilinear": 2, "bicubic": 3, "lanczos": 1}


def reference(image: Image.Image, resize: int, crop: int, filter_: int) -> np.ndarray:
    """Resize the shorter side, cut the middle out; halves are rounded to even, as Python does."""
    w, h = image.size
    if w <= h and w != resize:
        image = image.resize((resize, int(resize * h / w)), filter_)
    elif h < w and h != resize:
        image = image.resize((int(resize * w / h), resize), filter_)
    pixels = np.array(image)
    top, left = round((pixels.shape[0] - crop) / 2), round((pixels.shape[1] - crop) / 2)
    return pixels[top : top + crop, left : left + crop]


@settings(max_examples=150)
@given(
    w=st.integers(1, 70),
    h=st.integers(1, 70),
    resize=st.integers(1, 40),
    less=st.integers(0, 39),
    name=st.sampled_from(sorted(FILTERS)),
)
def test_pixels_of_any_size(w, h, resize, less, name):
    crop = max(1, resize - less)
    pixels = np.random.default_rng([w, h]).integers(256, size=(h, w, 3), dtype=np.uint8)
    transform = Preprocessing(resize, crop, interpolation=name)
    expected = reference(Image.fromarray(pixels), resize, crop, FILTERS[name])
    before = pixels.copy()
    for image in (pixels, Image.fromarray(pixels)):
        got = transform.pixels(image)
        assert got.shape == (crop, crop, 3) and got.dtype == np.uint8
        assert np.array_equal(got, expected)
    assert np.array_equal(pixels, before)


def test_very_long_images():
    transform = Preprocessing(8, 8)
    for size in ((1, 5000), (5000, 1), (3, 4001)):
        strip = Image.fromarray(
            np.random.default_rng(0).integers(256, size=(*size, 3), dtype=np.uint8)
        )
        assert np.array_equal(transform.pixels(strip), reference(strip, 8, 8, 2))
    with pytest.raises(
        typica.InputError, match=r"1 x 3000 pixels would have 256 x 768000 .*; cut it to a less"
    ):
        Preprocessing(256, 224).pixels(Image.new("RGB", (1, 3000)))


@settings(max_examples=50)
@given(
    mean=st.tuples(*[st.floats(-1, 1)] * 3),
    std=st.tuples(*[st.floats(0.01, 3)] * 3),
    scale=st.sampled_from([1.0, 127.5, 255.0]),
)
def test_normalised_values(mean, std, scale):
    pixels = np.arange(2 * 16 * 16 * 3, dtype=np.uint8).reshape(2, 16, 16, 3)
    got = Preprocessing(16, 16, mean, std, scale=scale).normalised(pixels)
    assert got.shape == (2, 3, 16, 16) and got.dtype == np.float32 and got.flags.c_contiguous
    for c in range(3):
        one = (
            pixels[..., c].astype(np.float32) / np.float32(scale) - np.float32(mean[c])
        ) / np.float32(std[c])
        assert np.array_equal(got[:, c], one)


def test_call_is_pixels_then_normalised():
    transform = Preprocessing(20, 16, mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.25))
    pixels = np.random.default_rng(0).integers(256, size=(3, 31, 24, 3), dtype=np.uint8)
    steps = transform.normalised(np.stack([transform.pixels(image) for image in pixels]))
    assert np.array_equal(transform(pixels), steps)
    assert np.array_equal(
        transform(pixels[:, ::-1]), transform([np.ascontiguousarray(p[::-1]) for p in pixels])
    )


def with_orientation(pixels: np.ndarray, orientation: int, kind: str) -> Image.Image:
    """An image that is to be seen as `pixels` and is stored as its orientation says."""
    turns = {2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}  # those that undo the orientation's turn
    stored = Image.fromarray(pixels)
    stored = (
        stored.transpose(Image.Transpose(turns[orientation])) if orientation in turns else stored
    )
    exif = Image.Exif()
    exif[0x0112] = orientation
    file = io.BytesIO()
    stored.save(file, kind, exif=exif, lossless=True)
    return Image.open(file)


@pytest.mark.parametrize("kind", ["png", "tiff", "webp"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation(orientation, kind):
    seen = np.random.default_rng(0).integers(256, size=(12, 20, 3), dtype=np.uint8)
    with with_orientation(seen, orientation, kind) as image:
        got = Preprocessing(12, 12).pixels(image)
    assert np.array_equal(got, Preprocessing(12, 12).pixels(seen))


def test_orientation_only_when_asked():
    seen = np.random.default_rng(0).integers(256, size=(12, 20, 3), dtype=np.uint8)
    with with_orientation(seen, 6, "png") as image:
        plain = Preprocessing(12, 12, exif=False).pixels(image)
        assert np.array_equal(plain, reference(image.convert("RGB"), 12, 12, 2))
        assert not np.array_equal(plain, Preprocessing(12, 12).pixels(image))
        assert np.array_equal(
            Preprocessing(12, 12).pixels(image), np.asarray(ImageOps.exif_transpose(image))[:, 4:16]
        )


def test_modes_are_made_rgb():
    deep = np.arange(0, 65536, 256, dtype=np.uint16).reshape(16, 16)
    got = Preprocessing(16, 16).pixels(Image.fromarray(deep))
    assert np.array_equal(got[..., 0], np.rint(deep / 257)) and np.array_equal(
        got[..., 0], got[..., 2]
    )
    assert np.array_equal(
        Preprocessing(4, 4).pixels(Image.new("RGBA", (4, 4), (9, 8, 7, 0)))[0, 0], [9, 8, 7]
    )
    with pytest.raises(typica.InputError, match=r"float values from 0 to 7, beyond 0 ... 1"):
        Preprocessing(4, 4).pixels(Image.fromarray(np.array([[0, 7]], dtype=np.float32)))


def test_settings_as_json():
    transform = Preprocessing(
        40, 32, mean=(0.1, 0.2, 0.3), std=(1, 2, 3), interpolation="bicubic", exif=False
    )
    text = json.dumps(transform.to_dict())
    again = Preprocessing.from_dict(json.loads(text))
    assert (
        again == transform
        and again.fingerprint() == transform.fingerprint()
        and hash(again) == hash(transform)
    )
    assert transform.to_dict()["std"] == [1.0, 2.0, 3.0]
    assert Preprocessing(40, 32, std=[1, 1, 1], scale=255) == Preprocessing(40, 32)
    # Written out: banks made today are compared with it by later versions.
    canonical = '{"crop":32,"exif":true,"interpolation":"bilinear","mean":[0.0,0.0,0.0],'
    canonical += '"resize":40,"scale":255.0,"std":[1.0,1.0,1.0]}'
    assert Preprocessing(40, 32).fingerprint() == hashlib.sha256(canonical.encode()).hexdigest()
    changes = [
        *({"resize": 41}, {"crop": 31}, {"mean": (0.1, 0.2, 0.4)}, {"std": (1, 2, 4)}),
        *({"interpolation": "nearest"}, {"scale": 1.0}, {"exif": True}),
    ]
    prints = {dataclasses.replace(transform, **change).fingerprint() for change in changes}
    assert len(prints) == len(changes) and transform.fingerprint() not in prints


def test_grey_is_what_pillow_makes_of_the_colours():
    pixels = np.random.default_rng(0).integers(256, size=(20, 24, 3), dtype=np.uint8)
    transform = Preprocessing(16, 12, mean=0.25, std=0.5, mode="L")
    # Pillow's weights of red, green and blue, in sixteen bits.
    weights = pixels.astype(np.int64) @ np.array([19595, 38470, 7471])
    grey = ((weights + 2**15) >> 16).astype(np.uint8)
    expected = reference(Image.fromarray(grey), 16, 12, 2)
    for image in (pixels, Image.fromarray(pixels)):
        assert np.array_equal(transform.pixels(image), expected[:, :, None])
    got = transform([pixels])
    assert got.shape == (1, 1, 12, 12) and got.dtype == np.float32
    assert np.array_equal(got[0, 0], (expected.astype(np.float32) / 255 - np.float32(0.25)) / 0.5)


def test_a_grey_image_keeps_every_value():
    grey = np.arange(256, dtype=np.uint8).reshape(16, 16)
    transform = Preprocessing(None, mode="L")
    assert np.array_equal(transform.pixels(Image.fromarray(grey))[..., 0], grey)
    assert np.array_equal(transform.pixels(np.repeat(grey[..., None], 3, axis=2))[..., 0], grey)


def test_colours_the_other_way_round():
    pixels = np.random.default_rng(0).integers(256, size=(8, 8, 3), dtype=np.uint8)
    assert np.array_equal(Preprocessing(8, 8, mode="BGR").pixels(pixels), pixels[..., ::-1])


def test_images_as_they_are_and_sizes_that_ignore_the_shape():
    pixels = np.random.default_rng(0).integers(256, size=(6, 10, 3), dtype=np.uint8)
    plain = Preprocessing(None)
    assert plain.shape == (3, None, None) and np.array_equal(plain.pixels(pixels), pixels)
    assert np.array_equal(plain([pixels, pixels])[1], pixels.transpose(2, 0, 1) / np.float32(255))
    with pytest.raises(typica.InputError, match="images of 2 sizes, 9 x 6 and 10 x 6"):
        plain([pixels, pixels[:, :9]])
    squeezed = Preprocessing((4, 5))
    assert squeezed.shape == (3, 4, 5)
    expected = np.asarray(Image.fromarray(pixels).resize((5, 4), 2))
    assert np.array_equal(squeezed.pixels(pixels), expected)
    assert np.array_equal(Preprocessing(None, 4).pixels(pixels), pixels[1:5, 3:7])
    with pytest.raises(typica.InputError, match="10 x 6 pixels, smaller than crop=7"):
        Preprocessing(None, 7).pixels(pixels)


def test_new_settings_as_json():
    for transform in (
        Preprocessing(None),
        Preprocessing((4, 5), mode="BGR"),
        Preprocessing(28, 28, mean=0.1307, std=0.3081, mode="L"),
    ):
        assert Preprocessing.from_dict(json.loads(json.dumps(transform.to_dict()))) == transform
    assert "mode" not in Preprocessing(4, 4).to_dict()  # as banks have it since before modes
    assert Preprocessing(28, 28, mode="L").to_dict()["mean"] == [0.0]
    for change, message in (
        ({"mode": "HSV"}, "mode 'HSV' is unknown; choose one of RGB, L, BGR"),
        ({"mode": "L", "mean": [0, 0, 0]}, "pass one mean, one positive"),
        ({"mode": "L", "std": 0}, "pass one mean, one positive"),
        ({"resize": [8, 8, 8]}, "pass one size, or height and width"),
        ({"resize": [8, 0]}, "pass one size, or height and width"),
        ({"resize": [99999, 99999]}, "pass one size, or height and width"),
        ({"resize": [4, 9], "crop": 5}, "pass 0 < crop <= resize"),
    ):
        with pytest.raises(typica.InputError, match=message):
            Preprocessing.from_dict({"resize": 8, "crop": 8, **change})


def test_settings_that_are_left_out_have_their_defaults():
    square = Preprocessing(8, 8, mean=(0.5, 0.5, 0.5), std=(2, 2, 2))
    assert Preprocessing.from_dict({"resize": 8, "mean": 0.5, "std": 2}) == square
    assert Preprocessing.from_dict({"resize": 8, "crop": None}).crop is None
    assert Preprocessing.from_dict({"resize": [4, 9]}).crop is None
    with pytest.raises(typica.InputError, match="resize missing; pass resize and crop"):
        Preprocessing.from_dict({"crop": 8})


def test_bad_settings():
    good = Preprocessing(40, 32).to_dict()
    for change, message in (
        (
            {"size": 3},
            "from_dict: size unknown; pass resize and crop, and any of mean, std, interpol",
        ),
        ({"mean": None}, "from_dict: mean=None is not a number; pass one number, or one per chan"),
        ({"mean": "x"}, "mean='x' is not a number; pass one number, or one per channel"),
        ({"std": [1, 1, "x"]}, "std='x' is not a number; pass one number, or one per channel"),
        ({"std": [[1, 1, 1]]}, r"std=\[1, 1, 1\] is not a number"),
        ({"mean": 10**400}, "is not a number; pass one number"),
        ({"mean": b"abc"}, "mean=b'abc' is not a number; pass one number"),
        ({"mean": np.array("x")}, r"mean=array\('x', .*\) is not a number; pass one number"),
        ({"std": np.array(None)}, "std=array.* is not a number; pass one number"),
        ({"mode": np.array(["RGB", "L"])}, "mode array.* is unknown; choose one of RGB"),
        ({"interpolation": np.array(["a", "b"])}, "interpolation array.* is unknown"),
        ({"scale": "x"}, r"scale='x' is not a number; pass a number\."),
        ({"scale": None}, r"scale=None is not a number; pass a number\."),
        ({"mode": ["RGB"]}, r"mode \['RGB'\] is unknown; choose one of RGB"),
        ({"interpolation": {}}, r"interpolation \{\} is unknown; choose one of nearest"),
        ({"resize": True, "crop": None}, "crop=None of resize=True; pass 0 < crop <= resize"),
        ({"mean": [0, 0, float("nan")]}, "three means"),
        ({"mean": [0, 0]}, "three means"),
        ({"scale": 0}, "a positive scale"),
        ({"crop": 41}, "pass 0 < crop <= resize"),
        ({"crop": 3.5}, "pass 0 < crop <= resize"),
        ({"interpolation": "cubic"}, "choose one of nearest"),
        ({"exif": "no"}, "exif='no'; pass True or False"),
    ):
        with pytest.raises(typica.InputError, match=message):
            Preprocessing.from_dict({**good, **change})
    with pytest.raises(typica.InputError, match="from_dict: resize missing"):
        Preprocessing.from_dict({})


def test_settings_of_numpy_are_those_of_python():
    plain = Preprocessing((8, 9), 8, mean=0.5, std=(0.5, 0.25, 0.125), scale=2)
    size = (np.int64(8), np.int32(9))
    std = np.array([0.5, 0.25, 0.125])
    given = Preprocessing(size, np.int64(8), mean=np.float32(0.5), std=std, scale=np.int8(2))
    assert given == plain and given.fingerprint() == plain.fingerprint()
    assert Preprocessing(np.int64(8)) == Preprocessing(8)
    no_axes = Preprocessing(8, mean=np.array(0.5), std=np.array(0.25), scale=np.array(2))
    assert no_axes == Preprocessing(8, mean=0.5, std=0.25, scale=2)
    turned = Preprocessing(8, exif=np.True_)
    assert turned == Preprocessing(8) and json.dumps(turned.to_dict())
    assert Preprocessing.from_dict({"resize": np.int64(8)}) == Preprocessing(8, 8)


def test_bad_images():
    transform = Preprocessing(8, 8)
    with pytest.raises(
        typica.InputError, match=r"pixels of shape \(3, 3\); pass \(n, height, width, 3\)"
    ):
        Preprocessing(None).normalised(np.zeros((3, 3), dtype=np.uint8))
    for bad, message in (
        (np.zeros((8, 8), dtype=np.uint8), r"an image of shape \(8, 8\)"),
        (np.zeros((0, 8, 3), dtype=np.uint8), r"an image of shape \(0, 8, 3\)"),
        (np.zeros((8, 8, 3)), "images of type float64; pass uint8"),
        ("photo.png", r"an image of shape \(\)"),
    ):
        with pytest.raises(typica.InputError, match=message):
            transform.pixels(bad)
    with pytest.raises(
        typica.InputError, match=r"pixels of shape \(1, 9, 8, 3\); pass \(n, 8, 8, 3\)"
    ):
        transform.normalised(np.zeros((1, 9, 8, 3), dtype=np.uint8))
    with pytest.raises(typica.InputError, match="type int64"):
        transform.normalised(np.zeros((1, 8, 8, 3), dtype=np.int64))
