"""MNIST's own format, IDX, to .npz files that `open_images` takes."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import numpy as np

from typica.arrays import AnyArray
from typica.bombs import allowance, check_growth
from typica.errors import FormatError
from typica.files import reading


def idx_to_npz(source: Path, target: Path) -> None:
    """Write train.npz and test.npz, with `images` (n, 28, 28) and `labels` (n,), from a set."""
    for name, stem in (("train", "train"), ("test", "t10k")):
        images = read_idx(source / f"{stem}-images-idx3-ubyte.gz")
        labels = read_idx(source / f"{stem}-labels-idx1-ubyte.gz")
        if images.ndim != 3 or labels.shape != images.shape[:1]:
            raise FormatError(
                f"{source}: {stem} has images {images.shape} and labels {labels.shape}; "
                "fetch it again."
            )
        np.savez(target / f"{name}.npz", images=images, labels=labels.astype(np.int64))


def read_idx(path: Path) -> AnyArray:
    """Return the array in a gzipped IDX file: 0, 0, 8, axes, each length in 4 bytes, the bytes."""
    again = "delete it and fetch it again"
    with reading(path, "not a whole gzip file", again), gzip.open(path) as file:
        data = file.read(allowance(path.stat().st_size) + 1)
    check_growth(path, len(data))
    axes = data[3] if data[:3] == b"\0\0\x08" and len(data) > 3 else 0
    shape = tuple(int.from_bytes(data[4 + 4 * i : 8 + 4 * i], "big") for i in range(axes))
    if not axes or len(data) != 4 + 4 * axes + math.prod(shape):
        raise FormatError(f"{path}: not an IDX file of bytes; delete it and fetch it again.")
    return np.frombuffer(data, np.uint8, offset=4 + 4 * axes).reshape(shape)
