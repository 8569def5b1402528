"""Is it still the same network? One fixed image, and what a network of code makes of it.

The digest of its weights does not tell what a network of code does with them; the answer to one
image does, whatever has changed: a function, a module that it imports, or a package.
"""

from __future__ import annotations

import contextlib
import copy
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica.data import Preprocessing
from typica.errors import InputError, argument
from typica.nets._extracted_batch import Extraction, run_directly

# Sides that a network may have been made for, where it does not take the images as they are.
SIDES = (224, 32, 28, 64, 8, 16, 48, 56, 84, 96, 112, 128, 160, 192, 240, 256, 299, 320, 384, 512)
_SIDE = 64  # pixels of the image, where neither transform nor network asks for a size
_DIGITS = 7  # that are kept of a number: float32 has no more


def probe(extractor: Any, transform: Preprocessing) -> dict[str, list[float | None]]:
    """Return what a network gives for the fixed image: the numbers of each layer, and logits.

    A network in half precision answers in single precision, if it can.
    """
    *others, last = _images(transform)
    for image in others:  # of which the network may take one size only
        with contextlib.suppress(InputError):
            return _answer(extractor, transform, image)
    try:
        return _answer(extractor, transform, last)
    except InputError as error:
        if not others:
            raise
        reason = str(error).removeprefix("run_directly: ").removesuffix(".")
        raise InputError(
            f"{argument('transform')} tells no size, and the network takes none of the usual ones "
            f"(the last: {reason}); name the size in it, by resize and crop."
        ) from error


def _images(transform: Preprocessing) -> list[NDArray[np.uint8]]:
    """Return the fixed image in the sizes to try: one, where the transform says how large."""
    height, width = transform.shape[1:]
    given = height or width
    sides = [given] if given is not None else [_SIDE, *SIDES]
    return [fixed_image(height or side, width or side) for side in sides]


def _answer(
    extractor: Any, transform: Preprocessing, image: NDArray[np.uint8]
) -> dict[str, list[float | None]]:
    inputs = transform.normalised(transform.pixels(image)[None])
    with _seeded(), _without_tf32():
        found = _in_single_precision(extractor, inputs)
    answer = {f"layer.{name}": _numbers(rows[0]) for name, rows in found.layers.items()}
    return answer if found.logits is None else {**answer, "logits": _numbers(found.logits[0])}


def _in_single_precision(extractor: Any, inputs: NDArray[np.float32]) -> Extraction:
    """Run a copy of the extractor: the fixed image must not settle which layer is the head."""
    taken = copy.copy(extractor)
    model = getattr(taken, "model", None)
    if model is not None and any(
        p.is_floating_point() and p.itemsize < 4 for p in model.parameters()
    ):
        # Of any kind: a module may refuse to be copied, and code may insist on half precision.
        with contextlib.suppress(Exception):
            taken.model = copy.deepcopy(model).float()
            return run_directly(taken, inputs)
        taken.model = model
    return run_directly(taken, inputs)


@contextlib.contextmanager
def _seeded() -> Iterator[None]:
    """Let a network that draws random numbers of PyTorch's draw the same each time."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(0)
        yield


@contextlib.contextmanager
def _without_tf32() -> Iterator[None]:
    """Keep a GPU from rounding to TF32, which moves an answer by up to 2e-3."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        yield
        return
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    # PyTorch 2.9 refuses to read the older setting once somebody has used the newer.
    off: Any = False
    name, parts = "allow_tf32", [matmul, cudnn]
    if hasattr(matmul, "fp32_precision"):
        name, off, parts = "fp32_precision", "ieee", [matmul, cudnn.conv]
    before = [getattr(part, name) for part in parts]
    try:
        for part in parts:
            setattr(part, name, off)
        yield
    finally:
        for part, value in zip(parts, before, strict=True):
            setattr(part, name, value)


def fixed_image(height: int, width: int) -> NDArray[np.uint8]:
    """Return the image, (height, width, 3): blocks of 4 x 4 pixels and noise, by integers alone.

    >>> fixed_image(2, 2)[0, 0].tolist()
    [0, 194, 133]
    """
    y, x, c = np.ogrid[:height, :width, :3]
    coarse = _hashed(y // 4 * 7919 + x // 4 * 104729 + c * 1299709)
    fine = _hashed(y * 15485863 + x * 32452843 + c * 49979687)
    return ((3 * coarse + fine) // 4).astype(np.uint8)


def _hashed(numbers: NDArray[np.int64]) -> NDArray[np.uint64]:
    mixed = numbers.astype(np.uint64) * np.uint64(2654435761) % np.uint64(2**32)
    return (mixed >> np.uint64(16)) % np.uint64(256)


def _numbers(row: NDArray[np.float32]) -> list[float | None]:
    """Return numbers as JSON can hold them, None in place of those that are not finite."""
    return [float(f"{x:.{_DIGITS}g}") if np.isfinite(x) else None for x in row.tolist()]
