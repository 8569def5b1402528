"""A fit in parts: each is learnt by itself, and the results are merged in any order."""

from __future__ import annotations

from typing import Any, Self

from typica import store
from typica.detectors import Detector, is_pipeline
from typica.errors import FormatError, InputError, border
from typica.scale._batches import Batch, Skipped
from typica.scale._learner_ways import WAYS, Way, way_of
from typica.scale._row_sample import RowSample


class Learner:
    """What a fit has learnt from some rows: `add` batches, `merge` others, `finish` a detector.

    `passes` says how often the rows have to be read; after each pass but the last, `close` turns
    this into the plan of the next one.

    Parameters
    ----------
    detector
        An unfitted detector, which stays as it is.
    sample
        Fit on this many rows, chosen at random by their keys.

    >>> import numpy as np
    >>> from typica import CTM
    >>> learner = Learner(CTM())
    >>> rows = np.tile(np.eye(2), (10, 1))
    >>> one = learner.fresh().add(Batch(rows, np.tile(["cat", "dog"], 10), source="a"))
    >>> two = learner.fresh().add(Batch(rows, np.tile(["cat", "emu"], 10), source="b"))
    >>> Learner.from_bytes(one.merge(two).to_bytes()).finish().classes_.tolist()
    ['cat', 'dog', 'emu']
    """

    @border
    def __init__(self, detector: Detector, sample: int | None = None) -> None:
        self._begin(way_of(_checked(detector), sample))

    def _begin(self, way: Way, total: int | None = None) -> None:
        self.way = way
        self.sample = RowSample(way.limit, way.salt, total)
        self.n = 0
        self.skipped = Skipped()
        self.closed = 0  # passes

    @property
    def passes(self) -> int:
        """How often the rows have to be read."""
        return self.way.passes

    def expect(self, total: int | None) -> Self:
        """Say how many rows all parts have together, if that is known, before any is learnt.

        The state of a part is then smaller: it has its share of the sample, not all of it.
        """
        self.sample = RowSample(self.way.limit, self.way.salt, total)
        return self

    @border
    def add(self, batch: Batch) -> Self:
        """Learn the rows of a batch; an error names their file and row."""
        if len(batch):
            with batch.blamed():
                self.way.add(batch)
            if not self.closed:
                self.sample.add(batch)
            self.n += len(batch)
        self.skipped = self.skipped.joined(batch.skipped)
        return self

    @border
    def merge(self, other: Self) -> Self:
        """Take in what another has learnt, which stays as it is; this one is changed."""
        if other.n:
            self.way.merge(other.way)
            if not self.closed:
                self.sample.merge(other.sample)
            self.n += other.n
        self.skipped = self.skipped.joined(other.skipped)
        return self

    def fresh(self) -> Self:
        """Return one that has learnt nothing in this pass, for another part."""
        made = type(self).__new__(type(self))
        made._begin(self.way.fresh(), self.sample.total)
        made.closed = self.closed
        if self.closed:
            made.sample = self.sample  # that of the first pass
        return made

    @border
    def close(self) -> Self:
        """End a pass: this becomes the plan of the next one. After the last pass, do nothing."""
        self._check_rows()
        if self.closed + 1 < self.passes:
            self.way.close(self.sample, self.n)
            self.closed += 1
            self.n, self.skipped = 0, Skipped()  # the next pass skips them again
        return self

    @border
    def finish(self) -> Detector:
        """Return the fitted detector, with the provisional threshold of its sample of rows."""
        self._check_rows()
        return self.way.finish(self.sample, self.n)

    def _check_rows(self) -> None:
        if not self.n:
            raise InputError("there are no training rows; pass some.")

    def to_bytes(self) -> bytes:
        """Return all of it as bytes of safetensors, without pickle."""
        state: dict[str, Any] = {
            "way": self.way.name,
            "state": self.way.state(),
            "sample": self.sample.state(),
        }
        state |= {"n": self.n, "closed": self.closed, "skipped": self.skipped._asdict()}
        return store.to_bytes(state)

    @classmethod
    @border
    def from_bytes(cls, data: bytes) -> Self:
        """Rebuild what `to_bytes` returned; damaged bytes are refused."""
        state: dict[str, Any] = store.from_bytes(data)
        if not isinstance(state, dict) or state.get("way") not in WAYS:
            raise FormatError("these are not the bytes of a Learner; pass what its to_bytes made.")
        made = cls.__new__(cls)
        way = WAYS[state["way"]](state["state"]["detector"])
        way.restore(state["state"])
        made._begin(way)
        made.sample = RowSample.from_state(state["sample"])
        made.n, made.closed = state["n"], state["closed"]
        made.skipped = Skipped(**state["skipped"])
        return made


def _checked(detector: Any) -> Detector:
    if is_pipeline(detector):
        raise InputError(
            "a Pipeline cannot be fitted in parts; fit its steps one after the other, and pass the "
            "detector alone."
        )
    if not isinstance(detector, Detector):
        raise InputError(f"{type(detector).__name__} is not a detector; pass one.")
    return detector
