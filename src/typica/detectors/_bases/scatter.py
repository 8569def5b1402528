"""What the methods on covariances and subspaces share: moments with scatter, and dimensions.

Scatters are sums of products about a point: divided by the number of rows they are covariances. All
of them are sums of positive parts, so that nothing cancels.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from typica.arrays import Array, Labels, Rows, namespace
from typica.checks import Parameter, is_whole, optional
from typica.detectors.base import Detector
from typica.errors import InputError
from typica.estimator import LearnsMoments
from typica.head import HEAD, Head
from typica.linalg import Floats, Residuals, principal_axes


def zero_logits(head: Head | None, m: int) -> Floats:
    """Return the origin (m,) of ViM and Residual: the shortest feature with logits nearest to 0.

    That is o = -pinv(W) b, W and b being the head's. Without a head it is zero.

    >>> zero_logits(Head(np.eye(2), [1.0, -2.0]), 2)
    array([-1.,  2.])
    """
    if head is None:
        return np.zeros(m)
    W = head.weight.astype(np.float64)
    rounding = np.finfo(head.weight.dtype).eps * max(W.shape)
    return np.asarray(-np.linalg.pinv(W, rcond=rounding) @ head.bias)


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


def check_dim(dim: int | None, m: int) -> None:
    """Raise if a subspace of this dimension leaves nothing outside of a detector's m features."""
    if dim is None or dim < m:
        return
    if m == 1:
        raise InputError(f"dim={dim} leaves nothing outside of 1 feature(s); pass more features.")
    raise InputError(f"dim={dim} leaves nothing outside of {m} features; pass dim<{m}.")


def overflow_as_minus_infinity(score: Callable[[Array], Array], Z: Array) -> Array:
    """Return a detector's score(Z) with -inf for the NaN of rows that overflow their dtype."""
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

    def _learn(self, Z: Rows, labels: Labels | None) -> None:
        check_dim(self.dim, Z.shape[1])
        super()._learn(Z, labels)

    def _derive(self) -> None:
        m, n = self.moments_.n_features, self.moments_.n
        check_dim(self.dim, m)
        origin, dim = zero_logits(self.head, m), principal_dim(self.dim, m)
        variances, vectors = principal_axes(self.moments_.scatter_about(origin), n)
        self._check_rank(len(variances), dim)
        self._residuals = Residuals.outside(origin, variances, vectors, dim)

    def _check_rank(self, rank: int, dim: int) -> None:
        """Raise if training rows that vary in `rank` directions are too alike for the subspace."""
