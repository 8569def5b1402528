"""A detector as it was read from its file: what it takes, and its verdicts."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray
from typica.data import decode
from typica.decide import describe, judge, load_detector, origin_of
from typica.detectors import Estimator, final_detector, reads_layers, reads_logits
from typica.errors import InputError
from typica.files import existing, sha256
from typica.nets import Reopened, reopen, rows_of
from typica.serve._logs import log
from typica.serve._threads import alone_in_server
from typica.verdicts import Verdicts

BINS = 40  # of the histogram of calibration scores


@dataclass(frozen=True)
class Network:
    """Where the networks of served detectors are, if they have moved, and if they are trusted."""

    model: str | None = None
    weights: str | None = None
    trust: bool = False


@dataclass(frozen=True, eq=False)
class Served:
    """One version of a detector, which never changes: a new file is a new version.

    digest: the SHA-256 of its file. network: what turns images into features; if it is None,
    `no_images` says why.
    """

    name: str
    path: Path
    estimator: Estimator
    digest: str
    network: Reopened | None = None
    no_images: str = ""

    @cached_property
    def told(self) -> dict[str, Any]:
        """What a person wants to know about the detector, as JSON values."""
        return describe(self.estimator)

    @property
    def calibration(self) -> Any:
        """The calibration, None if there is none."""
        return final_detector(self.estimator).current_calibration()

    @cached_property
    def known_scores(self) -> NDArray[np.float64] | None:
        """The calibration scores, None if there are none."""
        if self.calibration is None:
            return None
        return np.asarray(self.calibration.sample_of_all)

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

    def look(self, network: Reopened, pixels: Sequence[NDArray[np.uint8]]) -> AnyArray:
        """Return what the detector reads from images of one size, run all at once; see `pixels`.

        network: its own, or a twin of that.
        """
        opened, transform = network
        return rows_of(opened, pixels, transform, self.estimator)

    def check_images(self) -> Reopened:
        """Return the network that turns images into features; refuse images if there is none."""
        if self.network is None:
            raise InputError(f"{self.name} takes no images ({self.no_images}); pass features.")
        return self.network

    def histogram(self) -> dict[str, Any] | None:
        """Return the histogram of the calibration scores: counts, and the edges between them."""
        if self.known_scores is None:
            return None
        counts, edges = np.histogram(self.known_scores, bins=BINS)
        return {"counts": counts.tolist(), "edges": edges.tolist()}


def read_served(name: str, path: Path, network: Network, before: Served | None = None) -> Served:
    """Read a detector's file and open its network; that of `before` is kept if it is the same.

    If the network cannot be opened, the detector takes only features; if `before` took images, that
    is an error.
    """
    with _servers_copy(path) as copy:
        digest = sha256(copy)
        estimator = load_detector(copy)
    served = partial(Served, name, path, estimator, digest)
    calibration = final_detector(estimator).current_calibration()
    ties = None if calibration is None else calibration.ties()
    if ties is not None:
        log("calibration", model=name, level="warning", reason=ties)
    origin = origin_of(estimator)
    if before is not None and before.network is not None:
        same_layers = reads_layers(before.estimator) == reads_layers(estimator)
        if origin == origin_of(before.estimator) and same_layers:
            return served(before.network)
        if origin is None:
            raise InputError(
                "it was fitted on features, and this server takes images; start another for it."
            )
        return served(_opened(estimator, network))
    if origin is None:
        return served(None, "it was fitted on features")
    try:
        return served(_opened(estimator, network))
    except InputError as error:
        return served(None, str(error.args[0]).rstrip("."))


def _opened(estimator: Estimator, network: Network) -> Reopened:
    alone_in_server()
    return reopen(
        origin_of(estimator),
        model=network.model,
        weights=network.weights,
        trust=network.trust,
        layers=reads_layers(estimator),
    )


@contextlib.contextmanager
def _servers_copy(path: Path) -> Iterator[Path]:
    """Give the server its own copy of a detector's file, which may be overwritten meanwhile."""
    existing(path)
    with tempfile.TemporaryDirectory(prefix="typica-serve-") as folder:
        copy = Path(folder) / path.name
        shutil.copyfile(path, copy)
        yield copy
