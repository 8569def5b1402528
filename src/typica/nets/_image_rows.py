"""Look at images: the network is run on them, and what a detector reads of it is kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray
from typica.data import Batch, Images, Preprocessing, image_batches
from typica.detectors import Estimator, reads_layers, reads_logits
from typica.errors import border
from typica.nets._extracted_batch import Extraction, run_directly
from typica.nets._left_out import none_readable
from typica.nets._open_model import Opened
from typica.nets._settings import Settings
from typica.progress import advance, note

if TYPE_CHECKING:
    from typica.nets._runner import Runner

WORTH_A_TRIAL = 256  # images; from so many on, looking for a faster backend saves time
_AT_ONCE = 8  # images of few


class Seen(NamedTuple):
    """What a detector reads of images: one row per image that could be read.

    indices: which image each row is of. skipped: (name, reason) of those left out.
    """

    rows: AnyArray
    indices: NDArray[np.int64]
    skipped: list[tuple[str, str]]


@border
def features_of(
    opened: Opened,
    images: Images,
    transform: Preprocessing,
    estimator: Estimator,
    settings: Settings | None = None,
) -> Seen:
    """Return what a detector, or a Pipeline that ends in one, reads of images.

    For few images the network is run as it is; for many, a faster backend is looked for first.

    Parameters
    ----------
    opened, transform
        The network, and the preprocessing of its images.
    images
        The set to read.
    estimator
        Says what is read: features, logits or several layers.
    settings
        What runs the network, and how.
    """
    look = Look(opened, transform, reads_logits(estimator), settings or Settings())
    look.layers = reads_layers(estimator)
    return look.at(images)


@border
def rows_of(
    opened: Opened,
    pixels: Sequence[NDArray[np.uint8]],
    transform: Preprocessing,
    estimator: Estimator,
) -> AnyArray:
    """Return what a detector reads of images that `transform.pixels` made, run all at once."""
    images = transform.normalised(transform.stacked(pixels))
    extraction = run_directly(opened.extractor, images)
    return np.asarray(extraction.read(reads_logits(estimator), reads_layers(estimator)))


@dataclass
class Look:
    """Makes rows of features of images: shows sets of them to a network, all by one backend.

    layers: those that are read side by side, where there are several. total: how many images there
    will be in all, where there are more sets than one.
    """

    opened: Opened
    transform: Preprocessing
    logits: bool
    settings: Settings
    total: int | None = None
    layers: list[str] | None = None
    _runner: Runner | None = None

    def at(self, images: Images) -> Seen:
        """Return the rows that the network makes of a set of images, as the detector reads them."""
        rows, indices, skipped = [], [], []
        for batch, extraction in self._run(images):
            skipped += batch.skipped
            if len(batch.indices):
                rows.append(extraction.read(self.logits, self.layers))
                indices.append(batch.indices)
        if not rows:
            raise none_readable(images)
        return Seen(np.concatenate(rows), np.concatenate(indices), skipped)

    def _run(self, images: Images) -> Iterator[tuple[Batch, Extraction]]:
        total, settings = self.total or len(images), self.settings
        if total < WORTH_A_TRIAL and self._network_will_do():
            return _run_few(self._network(), images, self.transform, settings)
        # Loads what converts and times networks, which few images do without.
        from typica.nets._extract import run_through  # noqa: PLC0415
        from typica.nets._start_runner import start_runner  # noqa: PLC0415

        if self._runner is None:
            self._runner = start_runner(self.opened, images, self.transform, settings, total)
            note(self._runner.describe())
        return run_through(self._runner, images, self.transform, settings)

    def _network_will_do(self) -> bool:
        """Tell whether the network itself, not converted, does what the settings ask for."""
        asked, own = self.settings, self.opened.extractor.backend
        return asked.backend in ("auto", own) and asked.threads is None and not asked.autocast

    def _network(self) -> Any:
        """Return the extractor, on the device that was asked for."""
        if self.settings.device is None:
            return self.opened.extractor
        from typica.nets._fastest_backend import moved  # noqa: PLC0415 (as in `_run`)

        return moved(self.opened.extractor, self.settings.device)[0]


def _run_few(
    extractor: Any, images: Images, transform: Preprocessing, settings: Settings
) -> Iterator[tuple[Batch, Extraction]]:
    """Yield batches with what the extractor itself makes of them."""
    size = _AT_ONCE if settings.batch is None else settings.batch
    batches = image_batches(
        images, transform, size, on_error=settings.on_error, workers=settings.workers
    )
    for batch in batches:
        advance(batch.stop - batch.start)
        extraction = Extraction(None, None, {})
        if len(batch.indices):
            extraction = run_directly(extractor, transform.normalised(batch.pixels))
        yield batch, extraction
