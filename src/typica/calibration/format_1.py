"""Calibrations as file format 1 kept them: read, never written.

Three kinds: `calibration`, a threshold with up to 2,048 quantiles, on a detector; `grouped_scores`,
scores by group, in a `conformal_detector` or a monitor; and in these `score_set`, all scores of a
group or a sketch of them. Where there are only quantiles or a sketch, the threshold stays, and
p-values need a new calibration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica.calibration._calibration import Calibration
from typica.calibration._levels import Levels
from typica.calibration._sample import LIMIT, ScoreSample
from typica.calibration._sources import read_seen
from typica.calibration._threshold import guaranteed_rank, threshold_at
from typica.keys import row_keys
from typica.origin import Origin
from typica.store import readable


@dataclass(frozen=True)
class OldScores:
    """Scores, ascending. upper: of a sketch, the counts up to each; None where none is lost."""

    n: int
    values: NDArray[np.float64]
    upper: NDArray[np.int64] | None

    def sample(self, levels: Levels) -> ScoreSample:
        """Return the scores as a sample, with a fixed threshold where some are lost."""
        values = self.values if self.upper is None else self._repeated(self.upper)
        made = ScoreSample().add(values, row_keys("", 0, len(values)))
        made.n = self.n
        if self.upper is not None:
            k = guaranteed_rank(self.n, levels.alpha, levels.confidence)
            rank = int(np.searchsorted(self.upper, k, side="left")) + 1 if k else 0
            made.fixed = threshold_at(rank, self.values)
        return made

    def _repeated(self, upper: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return each value of a sketch as often as it counts, so that percentiles stay."""
        size = min(self.n, LIMIT)
        counts = np.diff(upper * size // self.n, prepend=0)
        return np.repeat(self.values, counts)


@dataclass(frozen=True)
class OldGroups:
    """Scores by group, with the group of each class that was joined."""

    taxonomy: dict[str, str]
    sets: dict[str, OldScores]

    def calibration(self, levels: Levels, by_class: bool) -> Calibration:
        """Return the scores as a calibration of today."""
        groups = self.taxonomy if by_class else None
        made = Calibration(levels, by_class=by_class, groups=groups)
        for group, scores in self.sets.items():
            made.samples[group] = scores.sample(levels)
        made.sources = {"": read_seen(made.n)}
        return made


@dataclass(frozen=True)
class OldThreshold:
    """A threshold, what it was to keep, and quantiles of the n scores it came from."""

    threshold: float
    tpr: float
    n: int
    k: int
    source: str
    quantiles: NDArray[np.float64]

    def calibration(self) -> Calibration:
        """Return the threshold and its scores as a calibration of today."""
        made = Calibration(Levels.of(tpr=self.tpr))
        sample = OldScores(self.n, self.quantiles, None).sample(made.levels)
        if self.n != len(self.quantiles):
            sample.fixed = self.threshold
        made.samples["all"] = sample
        made.sources = {"": read_seen(self.n)}
        return made


def fitted_as_today(fitted: dict[str, Any]) -> dict[str, Any]:
    """Return fitted attributes under today's names, where format 1 had an offset_ and a source_."""
    today = dict(fitted)
    offset = today.pop("offset_", None)
    old = today.get("calibration_")
    if isinstance(old, OldThreshold):
        del today["calibration_"]
        if old.source == "training":
            today["training_offset_"] = offset
        else:
            today["calibration_"] = old.calibration()
    source = today.pop("source_", None)
    if source is not None:
        today["origin_"] = Origin.from_dict(source)
    return today


@readable("score_set")
def _score_set(state: dict[str, Any]) -> OldScores:
    return OldScores(state["n"], state["values"], state["upper"])


@readable("grouped_scores")
def _grouped_scores(state: dict[str, Any]) -> OldGroups:
    return OldGroups(dict(state["taxonomy"]), dict(state["sets"]))


@readable("calibration")
def _threshold(state: dict[str, Any]) -> OldThreshold:
    return OldThreshold(**state)
