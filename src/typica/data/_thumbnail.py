"""Images made small, for pages."""

from __future__ import annotations

from typing import Any

import numpy as np
from PIL import Image, ImageOps


def thumbnail(image: Any, side: int) -> Image.Image:
    """Return an image of Pillow or an array of pixels, upright and at most `side` pixels long.

    It is grey or RGB; one that is smaller keeps its size.

    >>> thumbnail(np.zeros((40, 20, 3), np.uint8), 10).size
    (5, 10)
    """
    if isinstance(image, Image.Image):
        made = ImageOps.exif_transpose(image)
    else:
        made = Image.fromarray(np.asarray(image))
    if made.mode not in ("RGB", "L"):
        made = made.convert("RGB")
    made.thumbnail((side, side))
    return made
