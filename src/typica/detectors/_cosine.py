"""What CTM and CW share: the largest cosine between a row and a set of directions."""

from __future__ import annotations

from typing import Any

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from typica.arrays import Array, like, namespace
from typica.detectors.base import Detector
from typica.explanation import Contribution

MOST_CONTRIBUTIONS = 5  # features that `explain` names
NO_DIRECTION = -1.0  # the score of a zero row: as far from every direction as a cosine can be


def unit_rows(M: NDArray[Any]) -> NDArray[np.float64]:
    """Return the rows of M scaled to length 1, in float64; they must not be zero."""
    M = M.astype(np.float64)
    M = M / np.abs(M).max(axis=1, keepdims=True)  # so that squares neither overflow nor underflow
    return np.asarray(M / np.linalg.norm(M, axis=1, keepdims=True))


def directed(Z: Array) -> tuple[Array, Array, Array]:
    """Return rows with the directions of those of Z, their lengths, and which rows are zero (length 1 here).

    Z is returned as it is unless squares of a row overflow or underflow; then the rows are
    rescaled. The lengths are safe to divide by, and no NaN enters their gradient.
    """
    xp = namespace(Z)
    info = xp.finfo(Z.dtype)
    squares = _sum_of_squares(Z)
    risky = ~((squares > info.smallest_normal / info.eps) & (squares < info.max))
    if bool(xp.any(risky)):
        largest = xp.max(xp.abs(Z), axis=1)
        Z = Z / xp.where(largest > 0, largest, xp.ones_like(largest))[:, None]
        squares = _sum_of_squares(Z)
    zero = squares == 0
    return Z, xp.sqrt(xp.where(zero, xp.ones_like(squares), squares)), zero


def _sum_of_squares(Z: Array) -> Array:
    with np.errstate(over="ignore", under="ignore"):
        return namespace(Z).vecdot(Z, Z)


def max_cosine(Z: Array, directions: Array) -> Array:
    """Return max_k cos(directions_k, z) for each row z of Z, -1 where z is zero.

    Z (n, m); directions (C, m) of length 1, in the backend and dtype of Z.

    >>> max_cosine(np.array([[3.0, 4.0], [0.0, 0.0]]), np.eye(2))
    array([ 0.8, -1. ])
    """
    xp = namespace(Z)
    Z, lengths, zero = directed(Z)
    best = xp.max(Z @ directions.T, axis=1) / lengths
    return xp.where(zero, xp.full_like(best, NO_DIRECTION), best)


def cosines(Z: Array, directions: Array) -> Array:
    """Return the cosines (n, C) between the rows of Z and of `directions`, -1 where a row of Z is zero."""
    xp = namespace(Z)
    Z, lengths, zero = directed(Z)
    products = (Z @ directions.T) / lengths[:, None]
    return xp.where(zero[:, None], xp.full_like(products, NO_DIRECTION), products)


class CosineDetector(Detector):
    """A detector whose score is the largest cosine to one of `_directions` (C, m), which `_prepare` sets."""

    _directions: NDArray[np.float64]
    _nan_passes = True

    def _score(self, Z: Array) -> Array:
        return max_cosine(Z, self._directions_like(Z))

    def _similarities(self, Z: Array) -> Array:
        return cosines(Z, self._directions_like(Z))

    def _directions_like(self, Z: Array) -> Array:
        """Return the directions in the backend, dtype and device of Z, kept from one block or call to the next."""
        made_for = (type(Z), Z.dtype, array_api_compat.device(Z))
        source, kept_for, kept = getattr(self, "_moved", (None, None, None))
        if source is not self._directions or kept_for != made_for:
            source, kept = self._directions, like(self._directions, Z)
            self._moved = (source, made_for, kept)
        return kept

    def __getstate__(self) -> dict[str, Any]:
        """Leave the moved directions out of pickles and copies: they are soon made again."""
        state: dict[str, Any] = super().__getstate__()
        return {key: value for key, value in state.items() if key != "_moved"}

    def _score_width(self) -> int:
        return len(self._directions)

    def _contributions(self, z: NDArray[Any], nearest: int) -> tuple[Contribution, ...]:
        # 1 - cos(u, v) = sum_j (u_j - v_j)^2 / 2 for u and v of length 1: every feature adds its
        # part, none negative.
        if not z.any():
            return ()
        excess = unit_rows(z[None])[0] - self._directions[nearest]
        amounts = excess**2 / 2
        largest = np.argsort(-amounts, kind="stable")[:MOST_CONTRIBUTIONS]
        return tuple(Contribution(int(j), float(amounts[j]), bool(excess[j] > 0)) for j in largest)

    def _note(self, z: NDArray[Any]) -> str:
        return "" if z.any() else "the feature vector is zero and has no direction, so it scores -1"
