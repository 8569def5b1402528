"""Fit a detector on its own and score sets with it: the engine of `compare`, `choose` and `bench`.

A detector that fails is reported in its place, and the others go on. Each is fitted by its own
`fit`, so that its numbers depend on no other and are those that a user gets.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from typica.arrays import Array
from typica.detectors import Detector


class Scores(NamedTuple):
    """What one method gave to `test`, to each OOD set and, if there is one, to the held-out set."""

    test: Array
    ood: dict[str, Array]
    calibration: Array = None


@dataclass(eq=False)
class Run:
    """One detector: its scores, or the error that stopped it; and what it cost.

    chosen: parameters that were chosen on the training data.
    """

    detector: Detector
    error: str = ""
    fit_seconds: float = 0.0
    score_microseconds: float = 0.0
    scores: Scores | None = None
    chosen: dict[str, Any] = field(default_factory=dict)

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Note an error here instead of letting it stop the other detectors."""
        try:
            yield
        except (ValueError, TypeError, ArithmeticError, MemoryError, ImportError) as error:
            self.error = str(error) or type(error).__name__

    def fit(self, train: Array, labels: Array) -> None:
        """Fit the detector on its own, and note how long that takes."""
        if self.error:
            return
        began = time.perf_counter()
        with self.reporting():
            self.detector.fit(train, labels)
        self.fit_seconds = time.perf_counter() - began

    def score(self, test: Array, ood: Mapping[str, Array], calibration: Array = None) -> None:
        """Score every set, and note what a row costs."""
        score = self.detector.score_samples
        began = time.perf_counter()
        known, strange = score(test), {name: score(rows) for name, rows in ood.items()}
        count = len(known) + sum(map(len, strange.values()))
        self.score_microseconds = 1e6 * (time.perf_counter() - began) / count
        held_out = None if calibration is None else score(calibration)
        self.scores = Scores(known, strange, held_out)
