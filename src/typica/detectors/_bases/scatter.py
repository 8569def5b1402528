"""What the methods on covariances and subspaces share: moments with scatter, and dimensions.

Scatters are sums of products about a point: divided by the number of rows they are covariances. All
of them are sums of positive parts, so that nothing cancels.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from typica.arrays import Array, namespace
from typica.checks import Parameter, is_whole, optional
from typica.detectors.base import Detector
from typica.errors import InputError
from typica.estimator import LearnsMoments
from typica.head import HEAD, Head
from typica.linalg import Residuals


def principal_dim(dim: int | None, m: int) -> int:
    """Return how many dimensions ViM and Residual take as principal: `dim`, or as ViM's authors do.

    >>> [principal_dim(None, m) for m in (2048, 768, 342)]
    [1000, 512, 171]
    """
    if dim is not None:
        return int(dim)
    if m >= 2048:
        return 1000
    return 512 if m >= 768 else m // 2


DIM = optional(
    Parameter(
        lambda value: is_whole(value) and value >= 1,
        "an integer of at least 1 and below the number of features",
        "{name}={value!r} is not a positive whole number; pass {name}>=1, or None.",
    )
)


def overflow_as_minus_infinity(score: Callable[[Array], Array], Z: Array) -> Array:
    """Return a detector's score(Z) with -inf for NaN, which rows too far for their dtype give."""
    with np.errstate(over="ignore", invalid="ignore"):
        return nan_as_minus_infinity(score(Z))


def nan_as_minus_infinity(scores: Array) -> Array:
    """Return a detector's scores or similarities with -inf for NaN."""
    xp = namespace(scores)
    return xp.where(xp.isnan(scores), xp.full_like(scores, -xp.inf), scores)


class ScatterDetector(LearnsMoments, Detector):
    """A detector that knows moments with scatter. Subclasses write `_derive` and `_typicality`."""

    _scatter = True

    def _score(self, Z: Array) -> Array:
        return overflow_as_minus_infinity(self._typicality, Z)

    def _typicality(self, Z: Array) -> Array:
        """Score one block of rows; NaN where the dtype overflows."""
        raise InputError("this detector has no score.")


class ResidualDetector(ScatterDetector):
    """A detector whose score is minus the length of `_residuals`, which `_derive` sets."""

    _residuals: Residuals

    def _typicality(self, Z: Array) -> Array:
        return -self._residuals.scale * self._residuals.lengths(Z)

    def _score_width(self) -> int:
        return int(self._residuals.basis.shape[1])


class PrincipalDetector(ResidualDetector):
    """A detector of what lies outside the principal subspace through the head's origin.

    head: the classifier's last layer, which sets the origin. dim: of the subspace.
    """

    params = {"head": HEAD, "dim": DIM}

    def __init__(self, head: Head | None = None, dim: int | None = None) -> None:
        self.head = head
        self.dim = dim

    def _check_parameters(self) -> None:
        super()._check_parameters()
        m = self.n_features
        if self.dim is not None and m is not None and self.dim >= m:
            raise InputError(
                f"dim={self.dim} leaves nothing outside of {m} features; pass dim<{m}."
            )
