"""A fit in parts: each is learnt by itself, and what was learnt is merged in any order."""

from __future__ import annotations

from typing import Any, Self

from sklearn.base import clone

from typica import store
from typica.detectors import TRAINING_SAMPLE, Detector, final_detector
from typica.errors import InputError, border
from typica.scale._batches import Batch
from typica.scale._row_sample import RowSample


class Learner:
    """What a fit has learnt of some rows: `add` batches, `merge` others, `finish` to a detector.

    detector: an unfitted one, which stays as it is. It must be able to merge.

    >>> import numpy as np
    >>> from typica import CTM
    >>> learner = Learner(CTM())
    >>> rows = np.tile(np.eye(2), (10, 1))
    >>> one = learner.fresh().add(Batch(rows, np.tile(["cat", "dog"], 10), source="a"))
    >>> two = learner.fresh().add(Batch(rows, np.tile(["cat", "emu"], 10), source="b"))
    >>> Learner.from_bytes(one.merge(two).to_bytes()).finish().classes_.tolist()
    ['cat', 'dog', 'emu']
    """

    def __init__(self, detector: Detector) -> None:
        self.detector: Detector = clone(detector)
        self.sample = RowSample(TRAINING_SAMPLE)
        self.n = 0

    @border
    def add(self, batch: Batch) -> Self:
        """Learn the rows of a batch; an error names their file and row."""
        if len(batch):
            with batch.blamed():
                self.detector.partial_fit(batch.features, batch.labels)
            self.sample.add(batch)
            self.n += len(batch)
        return self

    @border
    def merge(self, other: Self) -> Self:
        """Take in what another has learnt, which stays as it is; this one is changed."""
        if other.n:
            self.detector.merge(other.detector)
            self.sample.merge(other.sample)
            self.n += other.n
        return self

    def fresh(self) -> Self:
        """Return one that has learnt nothing yet, for another part."""
        return type(self)(self.detector)

    @border
    def finish(self) -> Detector:
        """Return the fitted detector, with the provisional threshold of its sample of rows."""
        if not self.n or self.sample.rows is None:
            raise InputError("there are no training rows; pass some.")
        return self.detector.set_training_threshold(self.sample.rows)

    def to_bytes(self) -> bytes:
        """Return all of it as bytes of safetensors, without pickle."""
        state = {"detector": self.detector, "sample": self.sample.state(), "n": self.n}
        return store.to_bytes(state)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Rebuild what `to_bytes` returned; damaged bytes are refused."""
        state: dict[str, Any] = store.from_bytes(data)
        made = cls.__new__(cls)
        made.detector = final_detector(state["detector"])
        made.sample = RowSample.from_state(state["sample"])
        made.n = state["n"]
        return made
