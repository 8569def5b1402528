"""The graph of a detector: from features to score, p-value, verdict and the nearest classes."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np

from typica.arrays import AnyArray, by_sklearn
from typica.calibration import Calibration
from typica.detectors import Detector, Estimator, Matches, final_detector, steps_before
from typica.export._counting import count_among, count_in_segments
from typica.export._namespace import xp
from typica.export._traced import Traced
from typica.rectify import Rectifier

NONE = -1  # the position where there is no class


@dataclass(frozen=True)
class Judged:
    """What the graph says of each row (n,); None where the detector cannot tell."""

    score: Traced
    p_value: Traced | None
    typical: Traced | None
    nearest: Traced | None
    runner_up: Traced | None


@dataclass(frozen=True)
class Reference:
    """What an exported model compares scores with: one of everything, or one per class.

    thresholds (1,) or (C,); None where there is none. scores (k,): the calibration scores, group
    after group, each ascending; None where there are none. starts, sizes (1,) or (C,): where the
    group of each class is among them.
    """

    thresholds: AnyArray | None = None
    scores: AnyArray | None = None
    starts: AnyArray | None = None
    sizes: AnyArray | None = None

    @property
    def by_class(self) -> bool:
        """Whether the exported model has one for each class."""
        return self.thresholds is not None and len(self.thresholds) > 1

    @classmethod
    def of(cls, detector: Detector, most: int | None) -> Reference:
        """Return what to export of a detector, with at most `most` calibration scores per group."""
        calibration = detector.current_calibration()
        if calibration is None:
            offset = getattr(detector, "training_offset_", None)
            return cls(None if offset is None else np.array([offset], dtype=np.float32))
        groups = _groups(detector, calibration)
        limits = calibration.thresholds()
        with np.errstate(over="ignore"):
            found = np.array([limits.get(group, -np.inf) for group in groups]).astype(np.float32)
        if most is not None:
            calibration = copy.deepcopy(calibration).limit_to(most)
        return cls(found, *_segments(calibration, groups))


def _groups(detector: Detector, calibration: Calibration) -> list[str]:
    """Return the group whose scores are exported for each class, or the one group of all."""
    if not calibration.by_class:
        return list(calibration.samples)
    names = [str(name) for name in detector.classes_.tolist()]
    return [calibration.taxonomy.get(name, name) for name in names]


def _segments(calibration: Calibration, groups: list[str]) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Return all scores for the graph, and where those of each group begin and their number."""
    with np.errstate(over="ignore"):
        scores = calibration.scores.astype(np.float32)
    sizes = {group: sample.kept for group, sample in calibration.samples.items()}
    ends = dict(zip(sizes, np.cumsum(list(sizes.values())), strict=True))
    size = np.array([sizes.get(group, 0) for group in groups])
    return scores, np.array([ends.get(group, 0) for group in groups]) - size, size


def rectified(estimator: Estimator, Z: Traced) -> Traced:
    """Return the features as the detector sees them: after the steps that stand before it."""
    for step in steps_before(estimator):
        ours = isinstance(step, Rectifier)
        Z = step.transform(Z) if ours else by_sklearn(step, "transform", Z)
    return Z


def judged(
    estimator: Estimator, Z: Traced, threshold: Traced | None, reference: Reference
) -> Judged:
    """Return the verdicts of a fitted detector, or a Pipeline that ends in one, on traced rows.

    A row that Python would refuse, because it is not finite or its score exceeds float32, scores
    NaN, is not typical, and has the smallest p-value and no class.
    """
    sound = xp.all(xp.isfinite(Z), axis=1)
    Z = xp.where(sound[:, None], Z, xp.zeros_like(Z))
    scores, matches = final_detector(estimator).score_and_match(rectified(estimator, Z))
    sound = sound & (scores < np.inf)
    scores = xp.where(sound, scores, xp.full_like(scores, np.nan))
    p = _p_values(scores, matches, reference)
    typical = None
    if threshold is not None:
        typical = scores >= _limits(threshold, matches, reference)
    if matches is None:
        return Judged(scores, p, typical, None, None)
    none = xp.full_like(matches.nearest, NONE)
    nearest = xp.where(sound, matches.nearest, none)
    return Judged(scores, p, typical, nearest, xp.where(sound, matches.runner_up, none))


def _limits(threshold: Traced, matches: Matches | None, reference: Reference) -> Traced:
    """Return the threshold, or that of the class of each row."""
    if matches is None or not reference.by_class:
        return threshold
    return xp.take(threshold, matches.nearest)


def _p_values(scores: Traced, matches: Matches | None, reference: Reference) -> Traced | None:
    """Return (1 + how many calibration scores are at most the score) / (1 + how many there are)."""
    known, starts, sizes = reference.scores, reference.starts, reference.sizes
    if known is None or starts is None or sizes is None:
        return None
    if matches is None or not reference.by_class:
        count = count_among(known, scores)
        return xp.astype(count + 1, np.float64) / float(len(known) + 1)
    count = count_in_segments(known, starts, sizes, matches.nearest, scores)
    steps = xp.take(Traced.constant(sizes + 1.0), matches.nearest)
    steps = xp.where(xp.isnan(scores), xp.full_like(steps, sizes.max() + 1.0), steps)
    return xp.astype(count + 1, np.float64) / steps
