"""Calibration scores by group of predicted classes, and the p-values and thresholds that they give."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica.arrays import to_numpy
from typica.binomial import calibration_size, guaranteed_rank
from typica.errors import CalibrationWarning, InputError
from typica.fdr import check_share
from typica.sketch import ScoreSet, check_scores
from typica.store import storable

SMALLEST_GROUP = (
    100  # calibration inputs that a class should expect to have to be a group of its own
)
EVERYTHING = "all"  # the one group where classes are not told apart

Classes = NDArray[Any] | None


def pool_rare(classes: Any, counts: Any, n: int, smallest: int = SMALLEST_GROUP) -> dict[Any, str]:
    """Return the group "rare" for each class that can expect fewer than `smallest` of n calibration inputs.

    counts: how often each class occurs in other data, such as the training set. The calibration set
    itself must not decide: whether a class is pooled would then depend on the scores that it is
    judged by.

    >>> pool_rare(["cat", "dog", "emu"], [600, 390, 10], n=1000)
    {'emu': 'rare'}
    """
    names, numbers = to_numpy(classes).tolist(), to_numpy(counts).astype(np.float64)
    if len(names) != len(numbers) or not bool((numbers >= 0).all()) or not numbers.sum() > 0:
        raise InputError(
            f"pool_rare: {len(names)} classes, counts {numbers}; pass one count a class, not all 0."
        )
    expected = n * numbers / numbers.sum()
    return {name: "rare" for name, number in zip(names, expected, strict=True) if number < smallest}


def p_values(
    scores: Any, calibration: Any, rng: np.random.Generator | None = None
) -> NDArray[np.float64]:
    """Return the conformal p-values (1 + #{<=}) / (n + 1) of scores against an array or a `ScoreSet`.

    rng: randomise, (#{<} + U (1 + #{=})) / (n + 1) with U uniform, so that ties cost nothing.

    >>> p_values([0.5, 2.0, 9.0], [1.0, 2.0, 3.0])
    array([0.25, 0.75, 1.  ])
    """
    known = calibration if isinstance(calibration, ScoreSet) else ScoreSet().add(calibration)
    checked = check_scores(scores)
    at_most = known.count(checked) + 1
    if rng is None:
        return np.asarray(at_most / (known.n + 1))
    below = known.count(checked, side="left")
    return np.asarray((below + (1 - rng.random(len(checked))) * (at_most - below)) / (known.n + 1))


@storable("grouped_scores")
class GroupedScores:
    """One `ScoreSet` a group. `taxonomy` names the group of a class; classes that it lacks are groups of their own.

    Methods take `classes`, the predicted class of each score, or None where all are of one group.
    """

    def __init__(
        self, taxonomy: Mapping[Any, str] | None = None, max_scores: int | None = None
    ) -> None:
        self.taxonomy = {str(name): str(group) for name, group in (taxonomy or {}).items()}
        self.max_scores = max_scores
        self.sets: dict[str, ScoreSet] = {}

    @property
    def n(self) -> int:
        """The number of all scores."""
        return sum(scores.n for scores in self.sets.values())

    def add(self, scores: NDArray[Any], classes: Classes) -> None:
        """Take in a batch of scores."""
        for group, rows in self.rows(classes):
            self.sets.setdefault(group, ScoreSet(self.max_scores)).add(scores[rows])

    def merge(self, other: GroupedScores) -> None:
        """Take in the scores of `other`, group by group."""
        for group, scores in other.sets.items():
            self.sets.setdefault(group, ScoreSet(self.max_scores)).merge(scores)

    def rows(self, classes: Classes) -> Iterator[tuple[str, Any]]:
        """Yield each group that occurs, and an index of its rows."""
        if classes is None:
            yield EVERYTHING, slice(None)
            return
        names, codes = np.unique(classes, return_inverse=True)
        group_of = np.array([self.taxonomy.get(str(name), str(name)) for name in names])
        for group in np.unique(group_of):
            yield str(group), (group_of == group)[codes]

    def p_values(
        self, scores: NDArray[Any], classes: Classes, rng: np.random.Generator | None = None
    ) -> NDArray[np.float64]:
        """Return p-values, each against its own group; 1 (or U) for a group that has no scores to compare with."""
        p = np.empty(len(scores))
        for group, rows in self.rows(classes):
            p[rows] = p_values(scores[rows], self.sets.get(group, ScoreSet()), rng)
        return p

    def typical(
        self, scores: NDArray[Any], classes: Classes, limits: Mapping[str, float]
    ) -> NDArray[np.bool_]:
        """Return whether each score reaches the threshold of its group."""
        typical = np.ones(len(scores), dtype=np.bool_)
        for group, rows in self.rows(classes):
            # A Python float, so that float32 scores meet it in float32, as a detector's own
            # threshold.
            typical[rows] = scores[rows] >= limits.get(group, -math.inf)
        return typical

    def limits(self, alpha: Any, confidence: Any) -> dict[str, float]:
        """Return the threshold of each group: p <= alpha below it. Refuse or warn where it can reject nothing."""
        share = check_share(alpha, "alpha", zero=True)
        ranks = {
            group: guaranteed_rank(scores.n, share, confidence)
            for group, scores in self.sets.items()
        }
        helpless = [group for group, k in ranks.items() if k == 0]
        if helpless and share:
            self._complain(min(helpless, key=lambda group: self.sets[group].n), alpha, confidence)
        return {group: self.sets[group].threshold(k) for group, k in ranks.items()}

    def _complain(self, group: str, alpha: Any, confidence: Any) -> None:
        one = list(self.sets) == [EVERYTHING]
        found = f"{self.sets[group].n} calibration inputs{'' if one else f' of group {group!r}'}"
        need = calibration_size(alpha, confidence)
        remedy = f"pass at least {need}{'' if one else ' a group (pool rare classes)'}, or a larger alpha."
        if confidence is not None:
            raise InputError(
                f"{found} are too few for alpha={alpha} with confidence={confidence}; {remedy}"
            )
        warnings.warn(
            f"{found} are too few to reject anything at alpha={alpha}; {remedy}",
            CalibrationWarning,
            stacklevel=4,
        )

    def state(self) -> dict[str, Any]:
        """Return what is to be stored."""
        pairs = [[name, group] for name, group in self.taxonomy.items()]
        sets = [[group, scores] for group, scores in self.sets.items()]
        return {"taxonomy": pairs, "max_scores": self.max_scores, "sets": sets}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> GroupedScores:
        """Rebuild the scores from what was stored."""
        made = cls(dict(state["taxonomy"]), state["max_scores"])
        made.sets = dict(state["sets"])
        return made
