"""A detector as it was read from its file: what it takes, and its verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray
from typica.data import decode
from typica.decide import describe, judge, load_detector, origin_of
from typica.detectors import final_detector, reads_layers, reads_logits
from typica.errors import InputError
from typica.files import sha256
from typica.nets import Reopened, reopen, rows_of
from typica.verdicts import Verdicts

BINS = 40  # of the histogram of calibration scores


@dataclass(frozen=True)
class Network:
    """Where the networks of detectors are, if they have moved, and what they may do."""

    model: str | None = None
    weights: str | None = None
    trust: bool = False


@dataclass(frozen=True, eq=False)
class Served:
    """One version of a detector, which never changes: a new file is a new one.

    digest: the SHA-256 of its file. network: what makes features of images; None where
    there is none, and `no_images` says why.
    """

    name: str
    path: Path
    estimator: Any
    digest: str
    network: Reopened | None = None
    no_images: str = ""

    @cached_property
    def told(self) -> dict[str, Any]:
        """What a person wants to know of the detector, as JSON values."""
        return describe(self.estimator)

    @property
    def calibration(self) -> Any:
        """The calibration, None where there is none."""
        return getattr(final_detector(self.estimator), "calibration_", None)

    @cached_property
    def width(self) -> int | None:
        """How many features a row has."""
        found = getattr(self.estimator, "n_features_in_", None)
        return final_detector(self.estimator).n_features if found is None else int(found)

    @cached_property
    def reads(self) -> str:
        """What a row holds: features or logits."""
        return "logits" if reads_logits(self.estimator) else "features"

    def rows(self, values: AnyArray) -> AnyArray:
        """Return the rows of one request; refuse those that the detector could not judge."""
        if values.ndim != 2 or values.shape[1] != self.width or not len(values):
            shape = " x ".join(map(str, values.shape)) or "no"
            raise InputError(
                f"{self.reads} of {shape} numbers; pass one row of {self.width} per input."
            )
        if values.dtype.kind not in "fiu":
            raise InputError(f"{self.reads} of type {values.dtype}; pass numbers.")
        rows = values.astype(np.float32 if values.dtype.itemsize < 4 else np.float64, copy=False)
        if values.dtype == np.float32:
            rows = values
        broken = ~np.isfinite(rows).all(axis=1)
        if broken.any():
            raise InputError(
                f"row {int(np.argmax(broken))} holds NaN or infinity; pass finite numbers."
            )
        return rows

    def pixels(self, image: bytes | AnyArray, name: str, most: int) -> NDArray[np.uint8]:
        """Return one image, a file's bytes or an array, as the network takes it.

        most: pixels that it may have.
        """
        transform = self.check_images().transform
        if isinstance(image, bytes):
            return transform.pixels(decode(image, name=name, max_pixels=most))
        if image.ndim not in (2, 3) or image.shape[0] * image.shape[1] > most:
            shape = " x ".join(map(str, image.shape))
            raise InputError(f"{name} of {shape} numbers; pass height x width x 3, not too large.")
        return transform.pixels(image)

    def judge(self, rows: AnyArray) -> Verdicts:
        """Return the verdicts on rows."""
        return judge(self.estimator, rows)

    def look(self, pixels: Sequence[NDArray[np.uint8]], at_once: int) -> AnyArray:
        """Return what the detector reads of images; see `pixels`."""
        opened, transform = self.check_images()
        parts = []
        for start in range(0, len(pixels), at_once):
            some = pixels[start : start + at_once]
            parts.append(rows_of(opened, some, transform, self.estimator))
        return np.concatenate(parts)

    def check_images(self) -> Reopened:
        """Return what makes features of images; refuse them where there is nothing that does."""
        if self.network is None:
            raise InputError(f"{self.name} takes no images ({self.no_images}); pass features.")
        return self.network

    def histogram(self) -> dict[str, Any] | None:
        """Return the histogram of the calibration scores: counts, and the edges between them."""
        if self.calibration is None:
            return None
        counts, edges = np.histogram(self.calibration.scores, bins=BINS)
        return {"counts": counts.tolist(), "edges": edges.tolist()}


def read_served(name: str, path: Path, network: Network, before: Served | None = None) -> Served:
    """Read a detector's file and open its network; that of `before` is kept where it is the same.

    A network that cannot be opened leaves a detector that takes features.
    """
    digest = sha256(path)
    estimator = load_detector(path)
    if before is not None and before.network is not None and _same_origin(before, estimator):
        return Served(name, path, estimator, digest, before.network)
    if origin_of(estimator) is None:
        return Served(name, path, estimator, digest, None, "it was fitted on features")
    try:
        opened = reopen(
            origin_of(estimator),
            model=network.model,
            weights=network.weights,
            trust=network.trust,
            layers=reads_layers(estimator),
        )
    except InputError as error:
        return Served(name, path, estimator, digest, None, str(error).rstrip("."))
    return Served(name, path, estimator, digest, opened)


def _same_origin(before: Served, estimator: Any) -> bool:
    same_layers = reads_layers(before.estimator) == reads_layers(estimator)
    return same_layers and origin_of(before.estimator) == origin_of(estimator)
