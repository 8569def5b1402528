"""Images that several tests make."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image


def random_pixels(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(256, size=(*shape, 3), dtype=np.uint8)


def encoded(image: Image.Image | np.ndarray, kind: str = "png", **options) -> bytes:
    file = io.BytesIO()
    (Image.fromarray(image) if isinstance(image, np.ndarray) else image).save(file, kind, **options)
    return file.getvalue()


def array(image) -> np.ndarray:
    return np.asarray(image)
