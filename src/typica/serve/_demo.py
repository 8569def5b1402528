"""`typica serve --demo`: a detector of handwritten digits, to be drawn on the page.

The network of the suite `digits` knows the digits 0 to 6, 8x8 pixels each, light on dark. It, its
images and its detectors are files like those of any user, and are served as such.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from threadpoolctl import threadpool_limits

from typica.bank import Bank
from typica.bench import digits
from typica.detectors import CTM, RelativeMahalanobis
from typica.errors import InputError, border
from typica.nets import Settings, extract
from typica.serve._options import Options

ALPHA = 0.05
SIDE = 8
NAMES = ("relative-mahalanobis", "ctm")


class Demo(NamedTuple):
    """What there is to serve: the files of detectors, and the bank of the digits they know."""

    detectors: list[Path]
    bank: Path


@border
def serve_demo(options: Options | None = None) -> None:
    """Serve the demonstration until a signal ends it; its files are then removed."""
    # Needs the extra `serve`; writing the demonstration does not.
    from typica.serve import serve  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="typica-demo-") as folder:
        demo = write_demo(folder)
        serve(*demo.detectors, options=options, bank=demo.bank)


@border
def write_demo(folder: str | os.PathLike[str]) -> Demo:
    """Write images of digits, the network that reads them, a bank and two detectors.

    demo = write_demo("demo")
    serve(*demo.detectors, bank=demo.bank)
    """
    folder = Path(folder)
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder} is not empty; choose another folder.")
    splits = digits.split()
    known = [np.concatenate(pair) for pair in zip(splits["train"], splits["test"], strict=True)]
    network = folder / "network.safetensors"
    # BLAS threads gain nothing on matrices this small.
    with threadpool_limits(limits=1, user_api="blas"):
        _write_images(folder / "digits", *known)
        _write_images(folder / "held-out", *splits["calibration"])
        digits.network().save(network)
        bank = _banked(folder / "digits", network)
        held_out = _banked(folder / "held-out", network)
        detectors = (RelativeMahalanobis(), CTM())
        paths = [folder / f"{name}.safetensors" for name in NAMES]
        for detector, path in zip(detectors, paths, strict=True):
            detector.fit(bank).calibrate(held_out, alpha=ALPHA).save(path)
    return Demo(paths, bank.path)


def _write_images(folder: Path, images: NDArray[np.float32], labels: NDArray[np.int64]) -> None:
    """Write each image that the server's demonstration knows to the folder of its digit."""
    folder.mkdir(parents=True)
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        place = folder / str(label)
        place.mkdir(exist_ok=True)
        pixels = np.rint(image * (255 / digits.INK)).astype(np.uint8)
        Image.fromarray(pixels).save(place / f"{number:04d}.png")


def _banked(images: Path, network: Path) -> Bank:
    transform = {"resize": SIDE, "crop": SIDE, "mode": "L"}
    out = images.with_suffix(".bank")
    return extract(images, network, out, transform, settings=Settings(backend="numpy"))
