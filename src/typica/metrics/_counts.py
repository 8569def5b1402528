"""How many ID and OOD scores lie below each distinct score: all that the metrics need.

One sort of the scores serves every metric, and a bootstrap resample changes the counts only.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray

_BLOCK: Final = 1 << 15  # values whose counts stay in the cache


@dataclass(frozen=True, slots=True)
class Counts:
    """The k distinct scores, ascending, and how many ID and OOD scores lie below each.

    Entry k of the counts, behind the last score, counts all.
    """

    values: AnyArray
    id_below: NDArray[np.int64]
    ood_below: NDArray[np.int64]

    @classmethod
    def of(cls, sorted_id: AnyArray, sorted_ood: AnyArray) -> "Counts":
        """Return the counts of ID and OOD scores from which metrics are made."""
        # A stable sort finds the two ascending runs and merges them in linear time.
        both = np.concatenate([sorted_id, sorted_ood])
        order = np.argsort(both, kind="stable")
        scores = both[order]
        below = np.flatnonzero(np.concatenate([[True], scores[1:] != scores[:-1], [True]]))
        id_below = np.zeros(len(scores) + 1, dtype=np.int64)
        id_below[1:] = order < len(sorted_id)
        np.cumsum(id_below, out=id_below)
        if len(below) < len(id_below):
            scores, id_below = scores[below[:-1]], id_below[below]
        return cls(scores, id_below, below - id_below)

    def resampled(self, rng: np.random.Generator) -> "Counts":
        """Return the counts of a bootstrap resample of the ID and OOD scores."""
        below = []
        for counts in (self.id_below, self.ood_below):
            n = int(counts[-1])
            draws_of_rank = np.bincount(rng.integers(n, size=n), minlength=n)
            below.append(np.append(0, np.cumsum(draws_of_rank))[counts])
        id_below, ood_below = below
        drawn = np.diff(id_below + ood_below, append=-1) != 0
        return Counts(self.values[drawn[:-1]], id_below[drawn], ood_below[drawn])

    def measures(self, tpr: Fraction, convention: str) -> dict[str, Any]:
        """Give every metric and the threshold; all counts are integers, so that ties are exact."""
        n_id, n_ood = int(self.id_below[-1]), int(self.ood_below[-1])
        wins, least_error, sum_in, sum_out = 0, 0, 0.0, 0.0
        for start in range(0, len(self.values), _BLOCK):
            id_below, ood_below = (
                b[start : start + _BLOCK + 1] for b in (self.id_below, self.ood_below)
            )
            below, id_here, ood_here = id_below + ood_below, np.diff(id_below), np.diff(ood_below)
            # In halves: an ID score wins 2 against each lower OOD score, 1 against each equal one.
            wins += int(np.dot(id_here, ood_below[:-1] + ood_below[1:]))
            least_error = min(least_error, int((n_ood * id_below - n_id * ood_below).min()))
            sum_in += float(
                np.sum(id_here * ((n_id - id_below[:-1]) / (n_id + n_ood - below[:-1])))
            )
            sum_out += float(np.sum(ood_here * (ood_below[1:] / below[1:])))
        pairs = n_id * n_ood
        return self._operating_point(tpr, convention) | {
            "auroc": wins / (2 * pairs),
            "aupr_in": sum_in / n_id,
            "aupr_out": sum_out / n_ood,
            "detection_error": (pairs + least_error) / (2 * pairs),
        }

    def _operating_point(self, tpr: Fraction, convention: str) -> dict[str, Any]:
        n_id, n_ood = int(self.id_below[-1]), int(self.ood_below[-1])
        to_reject = (1 - tpr) * n_id
        rank = min(round(to_reject), n_id - 1) if convention == "rank" else math.floor(to_reject)
        # The value at that rank of ID.
        at = int(np.searchsorted(self.id_below, rank, side="right")) - 1
        part = Fraction(0)
        if convention == "interpolated":
            id_below, id_up_to = self.id_below[at : at + 2].tolist()
            part = (to_reject - id_below) / (id_up_to - id_below)
            if part == 0:
                at = int(np.searchsorted(self.id_below, rank, side="left"))
        ood_below, ood_up_to = self.ood_below[at : at + 2].tolist()
        accepted = n_ood - ood_below - part * (ood_up_to - ood_below)
        return {"fpr": float(accepted / n_ood), "threshold": float(self.values[at])}
