"""Images in, verdicts out: the network that a detector was fitted for is opened and run on them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from typica.data import Batch, Images, Preprocessing, image_batches
from typica.detectors import reads_logits
from typica.nets._extraction import Settings, none_readable, run_through, start_runner
from typica.nets._input import chosen
from typica.nets._models import Opened
from typica.nets._result import Extraction
from typica.nets._trials import run_directly
from typica.progress import advance

WORTH_A_TRIAL = 256  # images, from which on looking for a faster backend saves time
_AT_ONCE = 8  # images of few


class Seen(NamedTuple):
    """What a detector reads of images: one row per image that could be read.

    indices: which image each row is of. skipped: (name, reason) of those left out.
    """

    rows: NDArray[Any]
    indices: NDArray[np.int64]
    skipped: list[tuple[str, str]]


def features_of(
    opened: Opened,
    images: Images,
    transform: Preprocessing,
    estimator: Any,
    settings: Settings | None = None,
) -> Seen:
    """Return what a detector, or a Pipeline that ends in one, reads of images.

    Few images are run as they are, each decoded once and run once; of many, a faster backend is
    looked for first.
    """
    logits = reads_logits(estimator)
    rows, indices, skipped = [], [], []
    for batch, extraction in _run(opened, images, transform, settings or Settings()):
        skipped += batch.skipped
        if len(batch.indices):
            rows.append(chosen(extraction, logits))
            indices.append(batch.indices)
    if not rows:
        raise none_readable(images)
    return Seen(np.concatenate(rows), np.concatenate(indices), skipped)


def _run(
    opened: Opened, images: Images, transform: Preprocessing, settings: Settings
) -> Iterator[tuple[Batch, Extraction]]:
    plain = Settings(on_error=settings.on_error, workers=settings.workers)
    if settings == plain and len(images) < WORTH_A_TRIAL:
        return _run_few(opened, images, transform, settings)
    runner = start_runner(opened, images, transform, settings)
    return run_through(runner, images, transform, settings)


def _run_few(
    opened: Opened, images: Images, transform: Preprocessing, settings: Settings
) -> Iterator[tuple[Batch, Extraction]]:
    """Yield batches with what the extractor itself makes of them."""
    batches = image_batches(
        images, transform, _AT_ONCE, on_error=settings.on_error, workers=settings.workers
    )
    for batch in batches:
        advance(batch.stop - batch.start)
        extraction = Extraction(None, None, {})
        if len(batch.indices):
            extraction = run_directly(opened.extractor, transform.normalised(batch.pixels))
        yield batch, extraction
