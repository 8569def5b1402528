"""Compare detectors on the same features: what each reaches, and what it costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from typica.arrays import Array, as_features, to_numpy
from typica.bench._feature_suite import FeatureSuite
from typica.bench._method_names import detectors_for
from typica.bench._runs import Run
from typica.calibration import false_alarm_rate
from typica.detectors import Detector
from typica.errors import InputError, border
from typica.metrics import Evaluation, evaluate_many
from typica.progress import steps
from typica.written_numbers import Level


@dataclass(eq=False)
class Comparison(Run):
    """How one detector did: its results, or the error that stopped it.

    Attributes
    ----------
    detector
        The detector, fitted unless it failed.
    error
        Why it failed; empty if it did not.
    fit_seconds, score_microseconds
        How long the fit took, and how long one row takes to score.
    scores
        The scores, where `keep_scores` asked for them.
    chosen
        Parameters that were chosen on the training data.
    evaluation
        The metrics on each OOD set; None if the detector failed.
    """

    evaluation: Evaluation | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON values."""
        if self.evaluation is None:
            return {"detector": self.detector.kind, "error": self.error}
        times = {"fit_seconds": self.fit_seconds, "score_microseconds": self.score_microseconds}
        return self.evaluation.to_dict() | times


@border
def compare(
    detectors: Mapping[str, Detector],
    train: Array,
    labels: Array,
    test: Array,
    ood: Mapping[str, Array],
    *,
    alpha: Level | None = None,
    tpr: Level | None = None,
    calibration: Array = None,
    keep_scores: bool = False,
) -> dict[str, Comparison]:
    """Fit every detector on the same features and measure how it tells `test` from each OOD set.

    Each detector gets a `Comparison`; that of one that fails holds its error.

    Parameters
    ----------
    detectors
        Detectors by name; they are fitted in place.
    train, labels
        Features to fit on, and one label per row; labels may be None.
    test, ood
        Features of known inputs, and of OOD sets by name.
    alpha
        The share of ID that may be rejected, 0.05 if neither it nor tpr is given.
    tpr
        1 - alpha, in its place.
    calibration
        Held-out features to set the thresholds on.
    keep_scores
        Whether to leave the scores in each comparison.
    """
    rate = false_alarm_rate(alpha, tpr)
    features = _checked_features(train, labels)
    table = {name: Comparison(detector) for name, detector in detectors.items()}
    with steps("comparing", len(table)) as done:
        for name, row in table.items():
            row.fit(features, labels)
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


def _checked_features(train: Array, labels: Array) -> Array:
    """Return the training features as an array; refuse labels that do not match their rows."""
    features = as_features(train)
    rows = (features.shape[0],)
    given = rows if labels is None else to_numpy(labels).shape
    if given != rows:
        raise InputError(f"labels of shape {given} for {rows[0]} rows; pass one label per row.")
    return features


def _evaluation(run: Run, alpha: Fraction) -> Evaluation | None:
    if run.scores is None:
        return None
    return evaluate_many(run.detector.kind, run.scores.test, run.scores.ood, alpha=alpha)


@border
def compare_on(
    suite: FeatureSuite,
    names: Iterable[str] | None = None,
    tpr: Level | None = None,
    *,
    alpha: Level | None = None,
) -> dict[str, Comparison]:
    """Compare detectors of these names (all if None) on a suite, calibrated on held-out rows.

    Where the suite has no head, those that need one are left out.
    """
    return compare(
        detectors_for(names, suite.head, "they need a head"),
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

    The cost is that of scoring a row. Times vary from run to run, and so may the result.
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
