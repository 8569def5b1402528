"""The names of version 0.1 for a calibrated detector; they go with version 0.3."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from typica import store
from typica.arrays import AnyArray, Array
from typica.calibration import Calibration
from typica.decide import _calibrate, _judge
from typica.detectors import calibration_of, final_detector
from typica.errors import InputError
from typica.explanation import Explanation


class Judgement(NamedTuple):
    """What `Verdicts` took the place of: score, p-value and whether each input is typical."""

    scores: AnyArray
    p_values: NDArray[np.float64]
    typical: NDArray[np.bool_]


class ConformalDetector:
    """A fitted detector or Pipeline, calibrated as it was in version 0.1.

    Use `calibrate`, `p_values`, `discoveries` and `judge` of the detector itself, or those of
    `typica` for a Pipeline. max_scores: how many scores a group keeps; a uniform sample, as in
    `Calibration`.
    """

    def __init__(
        self,
        detector: Any,
        *,
        by_class: bool = False,
        groups: Mapping[Any, str] | None = None,
        max_scores: int | None = None,
        alpha: Any = 0.05,
        confidence: Any = None,
    ) -> None:
        warnings.warn(
            "ConformalDetector is deprecated; call calibrate, p_values and judge of the detector.",
            DeprecationWarning,
            stacklevel=2,
        )
        final_detector(detector)
        if max_scores is not None and (not isinstance(max_scores, int) or max_scores < 1):
            raise InputError(f"max_scores={max_scores!r}; pass an integer of 1 or more, or None.")
        self.detector = detector
        self.max_scores = max_scores
        self._options = {"by_class": by_class, "groups": groups}
        self._options |= {"alpha": alpha, "confidence": confidence}

    def calibrate(self, X: Any, predicted: Any = None) -> Self:
        """Calibrate the detector; see `Detector.calibrate`."""
        _calibrate.calibrate(self.detector, X, predicted=predicted, **self._options)
        return self._limited()

    def partial_calibrate(self, X: Any, predicted: Any = None) -> Self:
        """Take in one more batch; see `Detector.partial_calibrate`."""
        first = calibration_of(self.detector) is None
        options = self._options if first else {}
        _calibrate.partial_calibrate(self.detector, X, predicted=predicted, **options)
        return self._limited()

    def merge(self, other: ConformalDetector) -> Self:
        """Take in the calibration of another one; see `Calibration.merge`."""
        self.calibration.merge(other.calibration)
        return self

    @property
    def calibration(self) -> Calibration:
        """The calibration of the detector."""
        return final_detector(self.detector)._calibrated()

    @property
    def n(self) -> int:
        """The number of calibration inputs."""
        return self.calibration.n

    def p_values(self, X: Any, **options: Any) -> Array:
        """Return the p-value of each row; see `Detector.p_values`."""
        return _judge.p_values(self.detector, X, **options)

    def discoveries(self, X: Any, fdr: Any = 0.1, **options: Any) -> NDArray[np.bool_]:
        """Return the rows out of distribution; see `Detector.discoveries`."""
        return _judge.discoveries(self.detector, X, fdr=fdr, **options)

    def predict(self, X: Any, alpha: Any = None, **options: Any) -> NDArray[np.int64]:
        """Return +1 where p > alpha and -1 where not."""
        return np.where(self.judge(X, alpha, **options).typical, 1, -1)

    def judge(self, X: Any, alpha: Any = None, **options: Any) -> Judgement:
        """Return score, p-value and verdict of each row; see `Detector.judge`."""
        found = _judge.judge(self.detector, X, alpha, **options)
        if found.p_value is None or found.typical is None:
            raise InputError("not calibrated; call calibrate with held-out inputs.")
        return Judgement(found.score, found.p_value, found.typical)

    def explain(self, X: Any, **options: Any) -> list[Explanation]:
        """Say for each row why it is accepted or rejected; see `Detector.explain`."""
        return _judge.explain(self.detector, X, **options)

    def summary(self) -> dict[str, Any]:
        """Return what the calibration amounts to; see `Calibration.to_dict`."""
        final = final_detector(self.detector)
        return {"detector": final.kind, **self.calibration.to_dict()}

    def save(self, path: Any) -> None:
        """Write the calibrated detector to one file; it loads as that detector."""
        store.save(self.detector, path)

    def _limited(self) -> Self:
        if self.max_scores is not None:
            self.calibration.limit_to(self.max_scores)
        return self
