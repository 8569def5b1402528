"""The names of version 0.1 for a calibrated detector; to be removed in 0.3."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from typica import store
from typica.arrays import AnyArray, Array, to_numpy
from typica.calibration import Calibration, Levels
from typica.checks import is_whole
from typica.decide import _calibrate, _judge
from typica.detectors import final_detector
from typica.errors import InputError, border
from typica.explanation import Explanation
from typica.written_numbers import Level


class Judgement(NamedTuple):
    """What `Verdicts` has replaced: score, p-value and whether each input is typical."""

    scores: AnyArray
    p_values: NDArray[np.float64]
    typical: NDArray[np.bool_]


class ConformalDetector:
    """A fitted detector or Pipeline, calibrated as it was in version 0.1.

    Use `calibrate`, `p_values`, `discoveries` and `judge` of the detector itself, or those of
    `typica` for a Pipeline.

    Parameters
    ----------
    detector
        A fitted detector, or a fitted Pipeline that ends in one.
    by_class, groups, alpha, confidence
        As `typica.calibrate` takes them.
    max_scores
        How many scores a group keeps at most: a uniform sample, as in `Calibration`.
    """

    @border
    def __init__(
        self,
        detector: Any,
        *,
        by_class: bool = False,
        groups: Mapping[Any, str] | None = None,
        max_scores: int | None = None,
        alpha: Level = 0.05,
        confidence: Level | None = None,
    ) -> None:
        warnings.warn(
            "ConformalDetector is deprecated and will be removed in 0.3; call calibrate, p_values "
            "and judge of the detector.",
            DeprecationWarning,
            stacklevel=3,
        )
        if max_scores is not None:
            warnings.warn(
                "max_scores is deprecated and will be removed in 0.3; it keeps a uniform sample "
                "now: call calibration_.limit_to of the detector.",
                DeprecationWarning,
                stacklevel=3,
            )
        if max_scores is not None and (not is_whole(max_scores) or max_scores < 1):
            raise InputError(f"max_scores={max_scores!r}; pass an integer of 1 or more, or None.")
        if groups is not None and not by_class:
            raise InputError("groups without by_class; pass by_class=True as well.")
        Levels.of(alpha, confidence=confidence)  # says what is wrong with them
        self.detector = _calibrate.copy_to_calibrate(detector)  # as in 0.1, that one stays as it is
        self.by_class = by_class
        self.groups = groups
        self.max_scores = max_scores
        self.alpha = alpha
        self.confidence = confidence

    @border
    def calibrate(self, X: Any, predicted: Any = None) -> Self:
        """Calibrate the detector; see `Detector.calibrate`."""
        _calibrate.calibrate(self.detector, X, predicted=predicted, **self._options())
        return self._limited()

    @border
    def partial_calibrate(self, X: Any, predicted: Any = None) -> Self:
        """Take in one more batch; see `Detector.partial_calibrate`."""
        first = final_detector(self.detector).current_calibration() is None
        options = self._options() if first else {}
        _calibrate.partial_calibrate(self.detector, X, predicted=predicted, **options)
        return self._limited()

    @border
    def merge(self, other: ConformalDetector) -> Self:
        """Take in the calibration of another one; see `Calibration.merge`."""
        if final_detector(self.detector).current_calibration() is None:
            _calibrate.set_calibration(self.detector, copy.deepcopy(other.calibration))
        else:
            self.calibration.merge(other.calibration)
        return self

    @property
    @border
    def calibration(self) -> Calibration:
        """The calibration of the detector."""
        return final_detector(self.detector)._calibrated()

    @property
    @border
    def n(self) -> int:
        """The number of calibration inputs."""
        return self.calibration.n

    @property
    def stored_as(self) -> Any:
        """The detector, which is what a file holds."""
        return self.detector

    @border
    def p_values(
        self, X: Any, randomised: bool = False, seed: Any = None, predicted: Any = None
    ) -> Array:
        """Return the p-value of each row; see `Detector.p_values`."""
        options = {"randomised": randomised, "seed": seed, "predicted": predicted}
        return _judge.p_values(self.detector, X, **options)

    @border
    def discoveries(
        self,
        X: Any,
        fdr: Level = 0.1,
        method: Literal["bh", "storey"] = "bh",
        lam: Level = 0.5,
        predicted: Any = None,
    ) -> NDArray[np.bool_]:
        """Return the rows out of distribution; see `Detector.discoveries`."""
        options = {"fdr": fdr, "method": method, "lam": lam, "predicted": predicted}
        return _judge.discoveries(self.detector, X, **options)

    @border
    def predict(
        self,
        X: Any,
        alpha: Level | None = None,
        confidence: Level | None = None,
        predicted: Any = None,
    ) -> NDArray[np.int64]:
        """Return +1 where p > alpha and -1 where not."""
        return np.where(self.judge(X, alpha, confidence, predicted).typical, 1, -1)

    @border
    def judge(
        self,
        X: Any,
        alpha: Level | None = None,
        confidence: Level | None = None,
        predicted: Any = None,
    ) -> Judgement:
        """Return score, p-value and verdict of each row; see `Detector.judge`."""
        calibration, levels = self.calibration, self._levels(alpha, confidence)
        found = _judge.judge(self.detector, X, predicted=predicted)
        classes = found.nearest if predicted is None else to_numpy(predicted)
        offsets = calibration.offsets(found.score, classes if self.by_class else None, levels)
        p = calibration.p_values(found.score, classes if self.by_class else None)
        return Judgement(found.score, p, found.score >= offsets)

    @border
    def explain(
        self,
        X: Any,
        alpha: Level | None = None,
        confidence: Level | None = None,
        predicted: Any = None,
        bank: Any = None,
    ) -> list[Explanation]:
        """Say for each row why it is accepted or rejected; see `Detector.explain`."""
        options = {"alpha": alpha, "confidence": confidence, "predicted": predicted}
        return _judge.explain(self.detector, X, bank, **options)

    @border
    def summary(
        self, alpha: Level | None = None, confidence: Level | None = None
    ) -> dict[str, Any]:
        """Return what the calibration amounts to; see `Calibration.to_dict`."""
        final = final_detector(self.detector)
        told = self.calibration.to_dict(self._levels(alpha, confidence))
        return {"detector": final.kind, **told}

    @border
    def save(self, path: Any) -> None:
        """Write the calibrated detector to one file; it loads as that detector."""
        store.save(self.detector, path)

    def _options(self) -> dict[str, Any]:
        """Return what `calibrate` is told."""
        levels = {"alpha": self.alpha, "confidence": self.confidence}
        return {"by_class": self.by_class, "groups": self.groups, **levels}

    def _levels(self, alpha: Level | None, confidence: Level | None) -> Levels:
        """Return the levels asked for; those of the constructor where none is."""
        if alpha is not None:
            return Levels.of(alpha, confidence=confidence)
        return Levels.of(self.alpha, confidence=confidence or self.confidence)

    def _limited(self) -> Self:
        if self.max_scores is not None:
            self.calibration.limit_to(self.max_scores)
        return self
