"""Rows for a detector, from features or from images: what every command takes as its inputs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from typica.arrays import AnyArray
from typica.bank import Bank
from typica.data import (
    Images,
    are_images,
    open_images,
    read_grouped,
    read_labels,
    read_rows,
)
from typica.decide import origin_of
from typica.detectors import (
    Estimator,
    column_names,
    final_detector,
    input_width,
    reads_layers,
    reads_logits,
)
from typica.errors import InputError, about, argument, border
from typica.nets._left_out import note_left_out, note_skipped
from typica.nets._settings import Settings, checked_settings
from typica.origin import Origin
from typica.progress import work

if TYPE_CHECKING:
    from typica.nets._image_rows import Look, Seen
    from typica.nets._reopen import Reopened


@dataclass
class InputReader:
    """Reads features as they are, and shows images to the network that a detector was fitted for.

        reader = InputReader.of(detector)
        detector.calibrate(reader.rows("held_out/"), alpha=0.05)

    The network is opened for the first images; all that are read at once go through one backend.

    Parameters
    ----------
    origin
        The network that made the features, None where it is not known.
    logits
        Whether logits are wanted in place of features.
    layers
        Those that are wanted side by side.
    width
        How many numbers a row must have, where that is known.
    model, weights, trust
        As `reopen` takes them.
    transform
        As `extract` takes it; a network that the detector remembers has its own.
    settings
        What runs the network, and how.
    whose
        The name that errors begin with.
    columns
        As `read_features` takes them.
    """

    origin: Origin | None
    logits: bool = False
    layers: list[str] | None = None
    width: int | None = None
    model: Any = None
    weights: Any = None
    transform: Any = None
    trust: bool = False
    settings: Settings | None = None
    whose: str = ""
    columns: Sequence[str] | None = None
    _network: Reopened | None = field(default=None, init=False, repr=False)

    @classmethod
    @border
    def of(cls, estimator: Estimator, **network: Any) -> InputReader:
        """Return a reader for a detector, or for a Pipeline that ends in one."""
        whose = type(final_detector(estimator)).__name__
        origin = origin_of(estimator)
        layers, width = reads_layers(estimator), input_width(estimator)
        named: dict[str, Any] = {"whose": whose, "columns": column_names(estimator)}
        return cls(origin, reads_logits(estimator), layers, width, **network, **named)

    @property
    def opened_origin(self) -> Origin | None:
        """The origin of what was read of images; the detector's own where there were none."""
        if self._network is None:
            return self.origin
        origin: Origin = self._network.opened.origin(self._network.transform)
        return origin

    def remember(self, estimator: Estimator) -> None:
        """Let a detector that remembers no network remember the one that its images went through.

        Whoever judges with it next then need not name one.
        """
        if self.origin is None and self.opened_origin is not None:
            final_detector(estimator).origin_ = self.opened_origin

    @border
    def rows(self, source: Any) -> AnyArray:
        """Return one row per input of a path, or of several paths of images."""
        return self.sets({"": source})[""]

    @border
    def grouped(self, source: Any, groups: str) -> tuple[AnyArray, AnyArray]:
        """Return the rows of a file of features, and what each belongs to.

        groups: a file of one entry per row, or else a column of the features' own file; for a
        bank's layers it must be a file.
        """
        path = _only_features(source)
        if self.layers is not None:
            return self._features(path, None), read_labels(groups)
        return read_grouped(path, groups, self.origin, logits=self.logits, columns=self.columns)

    @border
    def see(self, images: Images) -> Seen:
        """Return what is read of one set of images, and which could not be."""
        return _seen(self._look({"": images}), images)

    @border
    def sets(self, sources: Mapping[str, Any]) -> dict[str, AnyArray]:
        """Return the rows of several sets by name, all as wide as the first."""
        images = {}
        for name, source in sources.items():
            if are_images(source):
                images[name] = open_images(source)
        look = self._look(images) if images else None
        rows: dict[str, AnyArray] = {}
        width = self.width
        for name, source in sources.items():
            if look is not None and name in images:
                rows[name] = _seen(look, images[name]).rows
            else:
                rows[name] = self._features(_only_features(source), width)
            width = rows[name].shape[1]
        return rows

    def _features(self, path: Path, width: int | None) -> AnyArray:
        """Return the rows of a file of features; of a bank's layers, side by side."""
        if self.layers is None or not Bank.is_bank(path):
            columns = self.columns
            return read_rows(path, self.origin, width, logits=self.logits, columns=columns)
        # Loads what combines detectors, which those of one layer do without.
        from typica.detectors.layer_ensemble import joined, layers_of  # noqa: PLC0415

        bank = Bank.open(path)
        with about(str(path)):
            if self.origin is not None:
                self.origin.check_same(bank.origin)
            return np.asarray(joined(layers_of(bank), self.layers))

    def _look(self, images: Mapping[str, Images]) -> Look:
        """Open the network, choose its backend, and return what shows images to it."""
        # Loads what opens networks, which features do without.
        from typica.nets._image_rows import Look  # noqa: PLC0415
        from typica.nets._reopen import reopen  # noqa: PLC0415

        settings = checked_settings(self.settings)
        for each in images.values():
            note_left_out(each)
        first, total = next(iter(images.values())), sum(map(len, images.values()))
        with about(self.whose or "the bank"):
            self._network = reopen(
                self.origin,
                model=self.model,
                weights=self.weights,
                trust=self.trust,
                transform=self.transform,
                images=first,
                layers=self.layers,
            )
        opened, transform = self._network
        return Look(opened, transform, self.logits, settings, total, self.layers)


@border
def check_no_network(network: Mapping[str, Any], these: str) -> None:
    """Refuse a network, or what belongs to it, where no images are there to go through it.

    Parameters
    ----------
    network
        The arguments about it, by name.
    these
        What is there instead, for the message: "these are features".
    """
    for name in ("model", "weights", "transform", "classes"):
        if network.get(name) is not None:
            raise InputError(f"{argument(name)} is for images, and {these}; leave it out.")


def _seen(look: Look, images: Images) -> Seen:
    with work("looking", len(images), unit="images/s"):
        seen = look.at(images)
    note_skipped(seen.skipped)
    return seen


def _only_features(source: Any) -> Path:
    """Return the one path of features that an `InputReader` may read; refuse several."""
    if isinstance(source, str | os.PathLike):
        return Path(source)
    if len(source) != 1:
        raise InputError(f"{len(source)} files of features; pass one, or images and folders.")
    return Path(source[0])
