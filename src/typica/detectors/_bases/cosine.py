"""What CTM and CW share: the largest cosine between a row and a set of directions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray, Array, beside, is_at_hand, like, namespace, to_numpy
from typica.cosines import TILE, cosines, max_cosine, tiles, undirected_marked
from typica.detectors._index import DirectionIndex
from typica.detectors._matches import Matches, better_two, top_two
from typica.detectors.base import Detector
from typica.explanation import Contribution
from typica.linalg import directed, unit_rows

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
    more memory than their directions. `_index`, where `_derive` sets it, finds the nearest two in
    less time; their cosines are then taken from the directions themselves.
    """

    _index: DirectionIndex

    def _score(self, Z: Array) -> Array:
        if self._is_indexed(Z):
            return self._found(Z).similarity
        return max_cosine(Z, self._like("_directions", Z))

    def _score_and_match(self, Z: Array) -> tuple[Array, Matches]:
        matches = self._found(Z) if self._is_indexed(Z) else self._compared(Z)
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

    def _is_indexed(self, Z: Array) -> bool:
        """Tell whether an index finds the matches: it can only read this machine's memory."""
        return hasattr(self, "_index") and is_at_hand(Z)

    def _found(self, Z: Array) -> Matches:
        """Return the two best matches of each row among those that the index finds."""
        xp = namespace(Z)
        scaled, lengths, zero = directed(Z)
        places = self._index.nearest_two(to_numpy(scaled / lengths[:, None]))
        if zero is not None:
            places[to_numpy(zero)] = (0, 1)  # without a direction: the first, as without an index
        missing = np.flatnonzero((places < 0).any(axis=1))
        if len(missing):
            exact = self._compared(xp.take(Z, beside(missing, Z), axis=0))
            places[missing, 0] = to_numpy(exact.nearest)
            places[missing, 1] = to_numpy(exact.runner_up)
        pairs = like(self._directions[places], Z)
        products = xp.sum(scaled[:, None, :] * pairs, axis=2) / lengths[:, None]
        best = top_two(undirected_marked(products, zero))
        rows = np.arange(len(places))
        first, second = places[rows, to_numpy(best.nearest)], places[rows, to_numpy(best.runner_up)]
        return best._replace(nearest=beside(first, Z), runner_up=beside(second, Z))

    def _note(self, z: AnyArray) -> str:
        if z.any():
            return ""
        return "the feature vector is zero and has no direction, so it scores -1"
