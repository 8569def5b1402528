"""Fit detectors and score sets with them: what `compare`, `choose` and `bench` share.

A detector that fails is reported in its place, and the others go on.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from typica.arrays import Array, as_features, row_blocks, to_numpy
from typica.bench._feature_suite import FeatureSuite
from typica.bench._method_names import make_detectors
from typica.calibration import false_alarm_rate
from typica.detectors import Detector
from typica.errors import InputError, border
from typica.head import Head
from typica.metrics import Evaluation, evaluate_many
from typica.progress import steps


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

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Add to the seconds that fitting took."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.fit_seconds += time.perf_counter() - began

    def fit(self, train: Array, labels: Array) -> None:
        """Fit the detector on its own."""
        if not self.error:
            with self.reporting(), self.timed():
                self.detector.fit(train, labels)

    def score(self, test: Array, ood: Mapping[str, Array], calibration: Array = None) -> None:
        """Score every set, and note what a row costs."""
        score = self.detector.score_samples
        began = time.perf_counter()
        known, strange = score(test), {name: score(rows) for name, rows in ood.items()}
        count = len(known) + sum(map(len, strange.values()))
        self.score_microseconds = 1e6 * (time.perf_counter() - began) / count
        held_out = None if calibration is None else score(calibration)
        self.scores = Scores(known, strange, held_out)


@dataclass(eq=False)
class Comparison(Run):
    """How one detector did: its results, or the error that stopped it.

    Seconds to fit, microseconds to score a row; the scores are there where they were asked for.
    """

    evaluation: Evaluation | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON values."""
        if self.evaluation is None:
            return {"detector": self.detector.kind, "error": self.error}
        times = {"fit_seconds": self.fit_seconds, "score_microseconds": self.score_microseconds}
        return self.evaluation.to_dict() | times


def fitted(runs: Mapping[str, Run], train: Array, labels: Array) -> Iterator[tuple[str, Run]]:
    """Fit the detectors of these runs and yield each when it is ready, in their order.

    Those that can learn in a stream are fitted together. That reads the features once, and rounds
    otherwise than a fit on its own does.
    """
    streaming = [run for run in runs.values() if run.detector.tags.mergeable]
    _fit_together(streaming, train, labels)
    for name, run in runs.items():
        if run not in streaming:
            run.fit(train, labels)
        yield name, run


def _fit_together(runs: Sequence[Run], train: Array, labels: Array) -> None:
    """Fit detectors that learn in a stream, reading each block of the features once for all."""
    Z = as_features(train)
    y = None if labels is None else to_numpy(labels)
    if y is not None and y.shape != (Z.shape[0],):
        raise InputError(
            f"labels of shape {y.shape} for {Z.shape[0]} rows; pass one label per row."
        )
    for block in row_blocks(Z.shape[0], Z.shape[1]):
        rows, targets = Z[block, ...], None if y is None else y[block]
        for run in runs:
            if not run.error:
                with run.reporting(), run.timed():
                    run.detector.partial_fit(rows, targets)
    for run in runs:
        if not run.error:
            with run.reporting(), run.timed():
                run.detector.set_training_threshold(Z)


@border
def compare(
    detectors: Mapping[str, Detector],
    train: Array,
    labels: Array,
    test: Array,
    ood: Mapping[str, Array],
    *,
    alpha: Any = None,
    tpr: Any = None,
    calibration: Array = None,
    keep_scores: bool = False,
) -> dict[str, Comparison]:
    """Fit every detector on the same features and measure how it tells `test` from each OOD set.

    Those that can learn in a stream are fitted together, in one pass over the training features.
    alpha: the share of ID that may be rejected, 0.05 if neither it nor tpr = 1 - alpha is given.
    calibration: held-out features to set the thresholds on. keep_scores: leave the scores in each
    row.
    """
    rate = false_alarm_rate(alpha, tpr)
    table = {name: Comparison(detector) for name, detector in detectors.items()}
    with steps("comparing", len(table)) as done:
        for name, _ in fitted(table, train, labels):
            row = table[name]
            if not row.error:
                with row.reporting():
                    if calibration is not None:
                        row.detector.calibrate(calibration, alpha=rate)
                    row.score(test, ood)
                    row.evaluation = _evaluation(row, rate)
            if not keep_scores:
                row.scores = None
            done(name)
    return table


def _evaluation(run: Run, alpha: Fraction) -> Evaluation | None:
    if run.scores is None:
        return None
    return evaluate_many(run.detector.kind, run.scores.test, run.scores.ood, alpha=alpha)


def compare_on(
    suite: FeatureSuite,
    names: Iterable[str] | None = None,
    tpr: Any = None,
    *,
    alpha: Any = None,
) -> dict[str, Comparison]:
    """Compare detectors of these names (all if None) on a suite, calibrated on held-out rows."""
    return compare(
        make_detectors(names, Head(suite.head_weight, suite.head_bias, suite.classes)),
        suite.train,
        suite.train_labels,
        suite.test,
        suite.ood,
        alpha=alpha,
        tpr=tpr,
        calibration=suite.calibration,
    )


def accepted(suite: FeatureSuite, detector: Detector) -> dict[str, float]:
    """Return the share of rows that the threshold accepts: of `test` and of each OOD set."""
    shares = {}
    for name, features in {"test": suite.test, **suite.ood}.items():
        shares[name] = float(np.mean(detector.predict(features) == 1))
    return shares


class Worth(NamedTuple):
    """What a detector reaches, the mean AUROC, and what a row costs it, in microseconds."""

    name: str
    auroc: float
    microseconds: float


def pareto(compared: Mapping[str, Comparison]) -> list[Worth]:
    """Return the detectors of a comparison that are better than all cheaper ones, cheapest first.

    The cost is that of scoring a row. Times vary from run to run, and so may who is at the edge.
    """
    measured = []
    for name, row in compared.items():
        if row.evaluation is not None:
            measured.append(Worth(name, row.evaluation.average["auroc"], row.score_microseconds))
    front: list[Worth] = []
    for worth in sorted(measured, key=lambda worth: (worth.microseconds, -worth.auroc)):
        if not front or worth.auroc > front[-1].auroc:
            front.append(worth)
    return front
