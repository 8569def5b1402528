"""Fit, calibrate and evaluate detectors on a suite."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from typica.bench.suite import FeatureSuite
from typica.detectors import Detector, detector_class, list_detectors
from typica.head import Head
from typica.metrics import Evaluation, evaluate_many


def fitted_detectors(suite: FeatureSuite, names: Iterable[str] | None = None, tpr: float = 0.95) -> dict[str, Detector]:
    """Return the detectors of these names (all if None), fitted on the suite's training features and calibrated."""
    head = Head(suite.head_weight, suite.head_bias, suite.classes)
    detectors = {}
    for name in list_detectors() if names is None else names:
        cls = detector_class(name)
        detector = cls(head=head) if cls.tags.needs_head or cls.tags.reads == "logits" else cls()
        detector.fit(suite.train, suite.train_labels)
        detectors[name] = detector.calibrate(suite.calibration, tpr=tpr)
    return detectors


def evaluate_detector(suite: FeatureSuite, detector: Detector, tpr: float = 0.95) -> Evaluation:
    """Measure how a fitted detector tells the suite's test features from each of its OOD sets."""
    scores = {name: detector.score_samples(features) for name, features in suite.ood.items()}
    return evaluate_many(detector.kind, detector.score_samples(suite.test), scores, tpr=tpr)


def kept_and_rejected(suite: FeatureSuite, detector: Detector) -> dict[str, float]:
    """Return the share of rows that the calibrated threshold accepts: of `test` and of each OOD set."""
    sets = {"test": suite.test, **suite.ood}
    return {name: float(np.mean(detector.predict(features) == 1)) for name, features in sets.items()}
