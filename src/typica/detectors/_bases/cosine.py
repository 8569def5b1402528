"""What CTM and CW share: the largest cosine between a row and a set of directions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray, Array, namespace
from typica.cosines import TILE, cosines, max_cosine, tiles
from typica.detectors._matches import Matches, better_two, top_two
from typica.detectors.base import Detector
from typica.explanation import Contribution
from typica.linalg import unit_rows

MOST_CONTRIBUTIONS = 5  # features that `explain` names


class DirectedDetector(Detector):
    """A detector by the cosines to `_directions` (C, m), of length 1, which `_derive` sets."""

    _directions: NDArray[np.float64]
    _nan_passes = True

    def _similarities(self, Z: Array) -> Array:
        return cosines(Z, self._like("_directions", Z))

    def _contributions(self, z: AnyArray, nearest: int) -> tuple[Contribution, ...]:
        # 1 - cos(u, v) = sum_j (u_j - v_j)^2 / 2 for u and v of length 1: every feature adds its
        # part, none negative.
        if not z.any():
            return ()
        excess = unit_rows(z[None].astype(np.float64))[0] - self._directions[nearest]
        amounts = excess**2 / 2
        largest = np.argsort(-amounts, kind="stable")[:MOST_CONTRIBUTIONS]
        return tuple(Contribution(int(j), float(amounts[j]), bool(excess[j] > 0)) for j in largest)


class CosineDetector(DirectedDetector):
    """A detector by the largest of those cosines.

    Rows are multiplied with one tile of directions after another, so that a million classes need no
    more memory than their directions.
    """

    def _score(self, Z: Array) -> Array:
        return max_cosine(Z, self._like("_directions", Z))

    def _score_and_match(self, Z: Array) -> tuple[Array, Matches]:
        matches = self._compared(Z)
        return matches.similarity, matches

    def _nearest(self, Z: Array) -> Array:
        return self._score_and_match(Z)[1].nearest

    def _score_width(self) -> int:
        return min(len(self._directions), TILE)

    def _compared(self, Z: Array) -> Matches:
        """Return the two best matches of each row among all directions."""
        directions = self._like("_directions", Z)
        first, *others = tiles(Z, directions)
        matches = top_two(cosines(Z, directions[first, :]))
        for tile in others:
            found = top_two(cosines(Z, directions[tile, :]))
            moved = found._replace(
                nearest=found.nearest + tile.start,
                runner_up=namespace(Z).where(
                    found.runner_up < 0, found.runner_up, found.runner_up + tile.start
                ),
            )
            matches = better_two(matches, moved)
        return matches

    def _note(self, z: AnyArray) -> str:
        if z.any():
            return ""
        return "the feature vector is zero and has no direction, so it scores -1"
