"""A calibration in parts: each is scored by itself, and the scores are merged in any order."""

from __future__ import annotations

from typing import Any, Self, Unpack

from typica import store
from typica.calibration import Calibration, CalibrationOptions
from typica.decide import add_scores, begin_calibration, set_calibration
from typica.detectors import Estimator
from typica.errors import FormatError, border
from typica.scale._batches import Batch, Skipped


class Calibrator:
    """The scores of some held-out rows: `add` batches, `merge` others, `finish` the estimator.

    The scores have keys made from (source, row number), so the calibration is the same however the
    rows are split.

    Parameters
    ----------
    estimator
        A fitted detector or Pipeline; None only merges.
    calibration
        What `begin` made, or what was added elsewhere.
    """

    def __init__(self, estimator: Estimator | None, calibration: Calibration) -> None:
        self.estimator: Any = estimator  # None only if nothing is scored
        self.calibration = calibration
        self.skipped = Skipped()

    @classmethod
    @border
    def begin(
        cls, estimator: Estimator, n: int | None = None, **options: Unpack[CalibrationOptions]
    ) -> Self:
        """Return one without scores; n, options: as `Detector.begin_calibration` takes them."""
        return cls(estimator, begin_calibration(estimator, n, **options))

    @border
    def add(self, batch: Batch) -> Self:
        """Add the scores of a batch; an error names the file and the row."""
        if len(batch):
            with batch.blamed():
                add_scores(
                    self.estimator,
                    self.calibration,
                    batch.features,
                    source=batch.source,
                    start=batch.start,
                    left_out=batch.left_out,
                )
        self.skipped = self.skipped.joined(batch.skipped)
        return self

    @border
    def merge(self, other: Self) -> Self:
        """Take in the scores of another, which stays as it is; this one is changed."""
        self.calibration.merge(other.calibration)
        self.skipped = self.skipped.joined(other.skipped)
        return self

    @border
    def finish(self) -> Estimator:
        """Return the estimator, which is changed: it decides by these scores."""
        finished: Estimator = set_calibration(self.estimator, self.calibration)
        return finished

    def to_bytes(self) -> bytes:
        """Return the calibration, without the estimator, as bytes of safetensors."""
        skipped = self.skipped._asdict()
        return store.to_bytes({"calibration": self.calibration, "skipped": skipped})

    @classmethod
    @border
    def from_bytes(cls, data: bytes, estimator: Estimator | None = None) -> Self:
        """Rebuild what `to_bytes` returned, for the estimator that made these scores."""
        state = store.from_bytes(data)
        if not isinstance(state, dict) or not isinstance(state.get("calibration"), Calibration):
            raise FormatError(
                "these are not the bytes of a Calibrator; pass what its to_bytes made."
            )
        made = cls(estimator, state["calibration"])
        made.skipped = Skipped(**state["skipped"])
        return made
