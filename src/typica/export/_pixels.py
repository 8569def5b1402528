"""Preprocessing inside a graph: from pixels, uint8 (N, height, width, 3), to what a network takes.

What Pillow does: it resizes along the width, rounds to whole numbers, and resizes along the height.
Pillow's weights are rounded to whole numbers too, those of a graph are not: a pixel may differ by
one of its 256 levels, and by a few with bicubic weights, which overshoot.
"""

from __future__ import annotations

import numpy as np
import spox.opset.ai.onnx.v18 as op
from spox import Var

from typica.data import Preprocessing
from typica.errors import InputError
from typica.export._namespace import xp
from typica.export._traced import Traced

GREY = (19595, 38470, 7471)  # of red, green and blue in 65,536 parts, as Pillow has them
_MODES = {"nearest": "nearest", "bilinear": "linear", "bicubic": "cubic"}


def prepared(pixels: Var, transform: Preprocessing, shape: tuple[int, ...]) -> Traced:
    """Return images (N, channels, height, width) in float32, as `transform` makes them."""
    channels_first = op.transpose(op.cast(pixels, to=np.float32), perm=[0, 3, 1, 2])
    images = _in_mode(Traced(channels_first), transform.mode)
    if transform.resize is not None:
        images = _resized(images, transform)
    if transform.crop is not None:
        images = _cropped(images, transform.crop)
    images = xp.reshape(images, (0, *shape))  # a size that the graph knows; 0 keeps their number
    mean, std = (
        Traced.constant(np.reshape(values, (-1, 1, 1)), np.float32)
        for values in (transform.mean, transform.std)
    )
    return (images / transform.scale - mean) / std


def _in_mode(images: Traced, mode: str) -> Traced:
    if mode == "BGR":
        return xp.take(images, Traced.constant([2, 1, 0], np.int64), axis=1)
    if mode == "L":
        parts = Traced.constant(np.reshape(GREY, (3, 1, 1)), np.float32)
        total = xp.sum(images * parts, axis=1, keepdims=True)  # which float32 holds exactly
        return Traced(op.floor(((total + 2.0**15) / 2.0**16).var))
    return images


def _resized(images: Traced, transform: Preprocessing) -> Traced:
    mode = _MODES.get(transform.interpolation)
    if mode is None:
        known = ", ".join(_MODES)
        raise InputError(
            f"ONNX does not resize by {transform.interpolation}, only by {known}; "
            "leave the preprocessing out of the file."
        )
    height, width = _sides(images)
    if isinstance(transform.resize, tuple):
        rows, columns = (Traced.constant([side], np.int64) for side in transform.resize)
    else:
        # The shorter side becomes `resize`, the other in proportion, rounded down.
        shorter = xp.minimum(height, width)
        rows, columns = (side * transform.resize / shorter for side in (height, width))
    return _stretched(_stretched(images, columns, 3, mode), rows, 2, mode)


def _stretched(images: Traced, size: Traced, axis: int, mode: str) -> Traced:
    """Return images with another size along one axis, in whole numbers."""
    made = op.resize(
        images.var,
        sizes=size.var,
        axes=[axis],
        mode=mode,
        antialias=0 if mode == "nearest" else 1,
        cubic_coeff_a=-0.5,
        exclude_outside=0 if mode == "nearest" else 1,
        nearest_mode="round_prefer_ceil",
    )
    return xp.clip(Traced(op.floor((Traced(made) + 0.5).var)), 0, 255)


def _cropped(images: Traced, side: int) -> Traced:
    """Return the middle of images; halves of a pixel are rounded to the even number."""
    starts = []
    for length in _sides(images):
        left_over = length - side
        half = left_over / 2
        odd = left_over - half * 2
        starts.append(half + odd * (half - half / 2 * 2))
    first = xp.concat(starts)
    return Traced(
        op.slice(images.var, first.var, (first + side).var, op.constant(value=np.array([2, 3])))
    )


def _sides(images: Traced) -> tuple[Traced, Traced]:
    """Return the height and the width (1,) of images (N, channels, height, width)."""
    sizes = Traced(op.shape(images.var))
    return sizes[2:3], sizes[3:4]
