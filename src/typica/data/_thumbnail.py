"""Images made small, for pages."""

from __future__ import annotations

from typing import Any

import numpy as np
from PIL import Image

from typica.data._decode import to_rgb, turned


def thumbnail(image: Any, side: int) -> Image.Image:
    """Return an image of Pillow or an array of pixels, upright and at most `side` pixels long.

    It is grey or RGB; one that is smaller keeps its size.

    >>> thumbnail(np.zeros((40, 20, 3), np.uint8), 10).size
    (5, 10)
    """
    if isinstance(image, Image.Image):
        upright = turned(image)
    else:
        upright = Image.fromarray(np.asarray(image))
    made = upright.copy() if upright.mode in ("RGB", "L") else to_rgb(upright)
    made.info = {}  # an orientation that was saved with it would turn it again
    made.thumbnail((side, side))
    return made
