"""What CTM and CW share: the largest cosine between a row and a set of directions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray, Array, namespace
from typica.detectors.base import Detector
from typica.explanation import Contribution
from typica.linalg import cosines, max_cosine, unit_rows

MOST_CONTRIBUTIONS = 5  # features that `explain` names


class CosineDetector(Detector):
    """A detector by the largest cosine to one of `_directions` (C, m), which `_derive` sets."""

    _directions: NDArray[np.float64]
    _nan_passes = True

    def _score(self, Z: Array) -> Array:
        return max_cosine(Z, self._like("_directions", Z))

    def _similarities(self, Z: Array) -> Array:
        return cosines(Z, self._like("_directions", Z))

    def _score_and_similarities(self, Z: Array) -> tuple[Array, Array]:
        similarities = self._similarities(Z)
        return namespace(similarities).max(similarities, axis=1), similarities

    def _score_width(self) -> int:
        return len(self._directions)

    def _contributions(self, z: AnyArray, nearest: int) -> tuple[Contribution, ...]:
        # 1 - cos(u, v) = sum_j (u_j - v_j)^2 / 2 for u and v of length 1: every feature adds its
        # part, none negative.
        if not z.any():
            return ()
        excess = unit_rows(z[None])[0] - self._directions[nearest]
        amounts = excess**2 / 2
        largest = np.argsort(-amounts, kind="stable")[:MOST_CONTRIBUTIONS]
        return tuple(Contribution(int(j), float(amounts[j]), bool(excess[j] > 0)) for j in largest)

    def _note(self, z: AnyArray) -> str:
        if z.any():
            return ""
        return "the feature vector is zero and has no direction, so it scores -1"
