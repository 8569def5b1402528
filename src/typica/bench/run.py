"""Fit, calibrate and compare detectors on the same features."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from typica.arrays import as_features, row_blocks, to_numpy
from typica.bench.suite import FeatureSuite
from typica.detectors import Detector, detector_class, list_detectors
from typica.errors import InputError
from typica.head import Head
from typica.metrics import Evaluation, evaluate_many

PAPER = (
    "msp",
    "max_logit",
    "energy",
    "mahalanobis",
    "knn",
    "cw",
    "ctm",
)  # what the CTM paper compares


@dataclass
class Comparison:
    """How one detector did: its results, or the error that stopped it; seconds to fit, microseconds a row to score.

    scores: those of `test` and, by name, of each OOD set, where they were asked for.
    """

    detector: Detector
    evaluation: Evaluation | None = None
    error: str = ""
    fit_seconds: float = 0.0
    score_microseconds: float = 0.0
    scores: tuple[Any, dict[str, Any]] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON values."""
        if self.evaluation is None:
            return {"detector": self.detector.kind, "error": self.error}
        times = {"fit_seconds": self.fit_seconds, "score_microseconds": self.score_microseconds}
        return self.evaluation.to_dict() | times


def make_detectors(
    names: Iterable[str] | None = None, head: Head | None = None
) -> dict[str, Detector]:
    """Make detectors by their names (all if None), with the head where they need one or read logits.

    >>> list(make_detectors(["ctm", "msp"], Head(np.eye(2))))
    ['ctm', 'msp']
    """
    made = {}
    for name in list_detectors() if names is None else names:
        cls = detector_class(name)
        made[cls.kind] = cls(head=head) if wants_head(cls) else cls()
    return made


def wants_head(detector: Detector | type[Detector]) -> bool:
    """Tell whether a detector needs a head to work on features."""
    return detector.tags.needs_head or detector.tags.reads == "logits"


def compare(
    detectors: Mapping[str, Detector],
    train: Any,
    labels: Any,
    test: Any,
    ood: Mapping[str, Any],
    *,
    tpr: float = 0.95,
    calibration: Any = None,
    keep_scores: bool = False,
    on_done: Callable[[str], None] = lambda name: None,
) -> dict[str, Comparison]:
    """Fit every detector on the same training features and measure how it tells `test` from each OOD set.

    Those that can learn in a stream are fitted together in one pass over the features. One that
    fails is reported in its place, and the others go on. keep_scores: leave the scores in each row.
    `on_done` is called with the name of each detector that is through.
    """
    table = {name: Comparison(detector) for name, detector in detectors.items()}
    _fit_together(table, train, labels)
    for name, row in table.items():
        if row.error:
            continue
        with _reporting(row):
            if not row.detector.tags.mergeable:
                with _timed(row):
                    row.detector.fit(train, labels)
            if calibration is not None:
                row.detector.calibrate(calibration, tpr=tpr)
            began = time.perf_counter()
            known = row.detector.score_samples(test)
            strange = {
                set_name: row.detector.score_samples(features) for set_name, features in ood.items()
            }
            scored = len(test) + sum(len(features) for features in ood.values())
            row.score_microseconds = 1e6 * (time.perf_counter() - began) / scored
            row.evaluation = evaluate_many(row.detector.kind, known, strange, tpr=tpr)
            row.scores = (known, strange) if keep_scores else None
        on_done(name)
    return table


def _fit_together(table: Mapping[str, Comparison], train: Any, labels: Any) -> None:
    """Fit the detectors that learn in a stream, reading each block of the features once for all of them."""
    Z = as_features(train)
    y = None if labels is None else to_numpy(labels)
    if y is not None and y.shape != (Z.shape[0],):
        raise InputError(
            f"compare: labels of shape {y.shape} for {Z.shape[0]} rows; pass one label a row."
        )
    streaming = [row for row in table.values() if row.detector.tags.mergeable]
    for block in row_blocks(Z.shape[0], Z.shape[1]):
        for row in streaming:
            if not row.error:
                with _reporting(row), _timed(row):
                    row.detector.partial_fit(Z[block, ...], None if y is None else y[block])
    for row in streaming:
        if not row.error:
            with _reporting(row), _timed(row):
                row.detector.set_training_threshold(Z)


@contextmanager
def _reporting(row: Comparison) -> Iterator[None]:
    """Note an error in the detector's row instead of letting it stop the others."""
    try:
        yield
    except (ValueError, ArithmeticError, MemoryError, ImportError) as error:
        row.error = str(error) or type(error).__name__


@contextmanager
def _timed(row: Comparison) -> Iterator[None]:
    began = time.perf_counter()
    try:
        yield
    finally:
        row.fit_seconds += time.perf_counter() - began


def compare_on(
    suite: FeatureSuite, names: Iterable[str] | None = None, tpr: float = 0.95
) -> dict[str, Comparison]:
    """Compare detectors of these names (all if None) on a suite, calibrated on its held-out features."""
    detectors = make_detectors(names, Head(suite.head_weight, suite.head_bias, suite.classes))
    return compare(
        detectors,
        suite.train,
        suite.train_labels,
        suite.test,
        suite.ood,
        tpr=tpr,
        calibration=suite.calibration,
    )


def accepted(suite: FeatureSuite, detector: Detector) -> dict[str, float]:
    """Return the share of rows that the calibrated threshold accepts: of `test` and of each OOD set."""
    sets = {"test": suite.test, **suite.ood}
    return {
        name: float(np.mean(detector.predict(features) == 1)) for name, features in sets.items()
    }
