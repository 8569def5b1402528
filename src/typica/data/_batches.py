"""Batches of images, decoded ahead by threads while the network works on the batch before."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from typica.data._decode import ImageError
from typica.data._image_sets import Images
from typica.data._transform import Preprocessing
from typica.errors import InputError, argument, border
from typica.machine import cores
from typica.threads import Task, Threads

AHEAD = 2  # batches decoded before they are asked for: enough to keep the threads busy
_TASK = 8  # images per task: passing a task on costs as much as reading a small image


class Batch(NamedTuple):
    """Rows [start, stop) of a set: `pixels` (k, h, w, channels) of its rows `indices` (k,).

    skipped: (name, reason) of each of the others.
    """

    start: int
    stop: int
    indices: NDArray[np.int64]
    pixels: NDArray[np.uint8]
    skipped: list[tuple[str, str]]


@border
def image_batches(
    images: Images,
    transform: Preprocessing,
    size: int,
    *,
    start: int = 0,
    on_error: str = "stop",
    workers: int | None = None,
) -> Iterator[Batch]:
    """Return an iterator over the batches of a set: batch k begins with row k size.

    Images are turned, resized and cropped by `transform.pixels`; `transform.normalised` does the
    rest.

    Parameters
    ----------
    images, transform
        The set, and its preprocessing.
    size
        Images in a batch.
    start
        The row to begin at, a multiple of `size`.
    on_error
        At an image that cannot be read "stop" raises its ImageError when its batch is due, "skip"
        leaves it out and says why.
    workers
        Threads, by default one per core and at most 8. They end with the iterator, even when it is
        dropped or closed early.

    >>> from typica.data import open_images
    >>> images = open_images(np.zeros((5, 40, 40, 3), dtype=np.uint8))
    >>> [batch.pixels.shape for batch in image_batches(images, Preprocessing(32, 32), size=3)]
    [(3, 32, 32, 3), (2, 32, 32, 3)]
    """
    if size < 1:
        raise InputError(f"size={size}; pass a positive number of images.")
    if start % size or not 0 <= start <= len(images):
        raise InputError(
            f"start={start}; pass a multiple of size={size} up to the {len(images)} images."
        )
    if on_error not in ("stop", "skip"):
        raise InputError(f"on_error={on_error!r}; choose stop or skip.")
    if workers is not None and workers < 1:
        raise InputError(f"workers={workers}; pass a positive number of threads.")
    workers = workers or min(8, cores())
    return _batches(images, transform, size, start=start, skip=on_error == "skip", workers=workers)


Decoding = Task[list[NDArray[np.uint8] | ImageError]]


def _batches(
    images: Images, transform: Preprocessing, size: int, *, start: int, skip: bool, workers: int
) -> Iterator[Batch]:
    waiting: deque[tuple[range, list[Decoding]]] = deque()
    with Threads(workers, "typica-images") as pool:

        def work(rows: range) -> list[NDArray[np.uint8] | ImageError]:
            return [_pixels(images, transform, row) for row in rows if not pool.stopped]

        def submit(rows: range) -> list[Decoding]:
            starts = range(0, len(rows), _TASK)
            return [pool.submit(work, rows[first : first + _TASK]) for first in starts]

        for first in range(start, len(images), size):
            rows = range(first, min(first + size, len(images)))
            waiting.append((rows, submit(rows)))
            if len(waiting) > AHEAD:
                yield _batch(images, transform, *waiting.popleft(), skip)
        while waiting:
            yield _batch(images, transform, *waiting.popleft(), skip)


def _pixels(images: Images, transform: Preprocessing, row: int) -> NDArray[np.uint8] | ImageError:
    try:
        return transform.pixels(images.read(row))
    except ImageError as error:
        return error
    except InputError as error:  # the transform does not know the name
        return ImageError(f"{images.names[row]}: {error.args[0]}")


def _batch(
    images: Images, transform: Preprocessing, rows: range, tasks: list[Decoding], skip: bool
) -> Batch:
    results = itertools.chain.from_iterable(task.result() for task in tasks)
    indices, decoded, skipped = [], [], []
    for row, result in zip(rows, results, strict=True):
        if not isinstance(result, ImageError):
            indices.append(row)
            decoded.append(result)
        elif skip:
            skipped.append((images.names[row], str(result.args[0])))
        else:
            raise _with_way_out(result) if len(images) > 1 else result
    pixels = transform.stacked(decoded)
    return Batch(rows.start, rows.stop, np.array(indices, dtype=np.int64), pixels, skipped)


def _with_way_out(error: ImageError) -> ImageError:
    """Return the error of an image that breaks a batch, with how to decode the batch without it."""
    way_out = argument("on_error", "skip")
    return ImageError(f"{error.args[0]} With {way_out} such images are left out.")
