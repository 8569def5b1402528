"""Preprocessing, decoding and the order of class folders against torchvision's own, bit for bit."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import transforms
from torchvision.datasets import ImageFolder

from typica.data import Preprocessing, image_batches, open_images

MODES = {
    name: transforms.InterpolationMode(name)
    for name in ("nearest", "bilinear", "bicubic", "lanczos")
}


@pytest.fixture(autouse=True)
def in_single(in_double: None) -> Iterator[None]:
    """Their preprocessing is float32; the other comparisons here are made in float64."""
    torch.set_default_dtype(torch.float32)
    yield


def theirs(p: Preprocessing) -> transforms.Compose:
    return transforms.Compose(
        [
            transforms.Resize(p.resize, interpolation=MODES[p.interpolation]),
            transforms.CenterCrop(p.crop),
            transforms.ToTensor(),
            transforms.Normalize(p.mean, p.std),
        ]
    )


SETTINGS = [
    Preprocessing(32, 32, (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
    Preprocessing(256, 224, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    Preprocessing(256, 224, (127 / 255,) * 3, (128 / 255,) * 3, interpolation="bicubic"),
    Preprocessing(37, 32, (0.5, 0.4, 0.3), (0.2, 0.3, 0.1), interpolation="lanczos"),
    Preprocessing(33, 20, interpolation="nearest"),
    Preprocessing(64, 1),
]
SIZES = [
    (32, 32),
    (224, 224),
    (256, 256),
    (1, 1),
    (1, 900),
    (900, 1),
    (37, 500),
    (333, 251),
    (33, 34),
    (63, 65),
]


@pytest.mark.parametrize("p", SETTINGS, ids=lambda p: f"{p.interpolation}-{p.resize}-{p.crop}")
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_preprocessing(p, size):
    pixels = np.random.default_rng(0).integers(256, size=(*size, 3), dtype=np.uint8)
    photo = Image.fromarray(pixels)
    expected = theirs(p)(photo).numpy()
    assert expected.dtype == np.float32
    for image in (pixels, photo):
        assert np.array_equal(p([image])[0], expected)


def test_files_and_their_order(tmp_path):
    rng = np.random.default_rng(0)
    names = [
        "dog/2.png",
        "dog/10.jpg",
        "cat/z.jpeg",
        "cat/deep/a.png",
        "cat/deep-er/a.webp",
        "cat-b/1.bmp",
        "Ant/q.tif",
    ]
    for k, name in enumerate(names):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        photo = Image.fromarray(rng.integers(256, size=(50 + k, 70 - k, 3), dtype=np.uint8))
        photo = photo.quantize(8) if name == "dog/2.png" else photo
        photo = photo.convert("CMYK") if name == "cat/z.jpeg" else photo
        photo = photo.convert("LA") if name == "cat/deep/a.png" else photo
        options = {"transparency": bytes(range(0, 160, 20))} if photo.mode == "P" else {}
        photo.save(tmp_path / name, **options)
    (tmp_path / "cat" / "notes.txt").touch()
    p = Preprocessing(40, 32, (0.5, 0.4, 0.3), (0.2, 0.3, 0.1), exif=False)
    folder = ImageFolder(str(tmp_path), theirs(p))
    images = open_images(tmp_path)
    assert images.classes == folder.classes
    assert [str(tmp_path / name) for name in images.names] == [path for path, _ in folder.samples]
    assert images.labels is not None and images.labels.tolist() == folder.targets
    got = np.concatenate([p.normalised(batch.pixels) for batch in image_batches(images, p, 3)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's, of the palette with transparency
        expected = torch.stack([folder[i][0] for i in range(len(folder))]).numpy()
    assert np.array_equal(got, expected)


@pytest.mark.parametrize("mode", ["1", "L", "P", "LA", "RGBA", "CMYK", "YCbCr"])
def test_modes(mode):
    pixels = np.random.default_rng(0).integers(256, size=(50, 41, 3), dtype=np.uint8)
    photo = Image.fromarray(pixels).convert(mode)
    file = io.BytesIO()
    photo.save(file, "tiff")
    p = Preprocessing(37, 32, (0.5, 0.4, 0.3), (0.2, 0.3, 0.1))
    with Image.open(file) as image:
        assert np.array_equal(p([image])[0], theirs(p)(image.convert("RGB")).numpy())
