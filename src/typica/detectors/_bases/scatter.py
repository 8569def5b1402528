"""What the methods on covariances and subspaces share: moments with scatter, and residuals.

Scatters are sums of products about a point: divided by the number of rows they are covariances. All
of them are sums of positive parts, so that nothing cancels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Self

import numpy as np

from typica.arrays import Array, like, namespace
from typica.checks import Parameter, is_whole, optional
from typica.detectors.base import Detector
from typica.errors import InputError
from typica.estimator import LearnsMoments
from typica.head import HEAD, Head
from typica.linalg import Floats, anchor


class Residuals(NamedTuple):
    """How long the part of a row is that lies outside a subspace through a point.

    center (m,): the point's anchor; basis (m, r): orthonormal directions outside the subspace,
    divided by `scale`; shift (r,): the rest of the point along them. `scale` is the size of the
    training rows: lengths in its unit have squares that float32 can hold, whatever the unit of the
    features.
    """

    center: Floats
    basis: Floats
    shift: Floats
    scale: float

    @classmethod
    def outside(cls, point: Floats, variances: Floats, vectors: Floats, dim: int) -> Self:
        """Measure from `point` what lies outside the `dim` leading directions that vary."""
        scale = float(np.sqrt(variances.sum())) or float(np.abs(point).max()) or 1.0
        center, basis = anchor(point), vectors[:, min(dim, len(variances)) :] / scale
        return cls(center, np.ascontiguousarray(basis), (point - center) @ basis, scale)

    def lengths(self, Z: Array) -> Array:
        """Return the length of each row's residual over `scale`; 0 has the gradient 0."""
        xp = namespace(Z)
        R = (Z - like(self.center, Z)) @ like(self.basis, Z)
        R -= like(self.shift, Z)  # in place: a third array would not stay in the cache
        squares = xp.vecdot(R, R)
        zero = squares == 0
        # The root of 1 in place of 0, so that no NaN enters the gradient.
        lengths = xp.sqrt(xp.where(zero, xp.ones_like(squares), squares))
        return xp.where(zero, xp.zeros_like(squares), lengths)


def zero_logits(head: Head | None, m: int) -> Floats:
    """Return o = -pinv(W) b (m,), the shortest feature whose logits are nearest to zero.

    Without a head it is zero.

    >>> zero_logits(Head(np.eye(2), [1.0, -2.0]), 2)
    array([-1.,  2.])
    """
    if head is None:
        return np.zeros(m)
    W = head.weight.astype(np.float64)
    rounding = np.finfo(head.weight.dtype).eps * max(W.shape)
    return np.asarray(-np.linalg.pinv(W, rcond=rounding) @ head.bias)


def principal_dim(dim: int | None, m: int) -> int:
    """Return the dimension of the principal subspace: `dim`, or that of ViM's authors.

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


def overflow_as_minus_infinity(kernel: Callable[[Array], Array], Z: Array) -> Array:
    """Return kernel(Z) with -inf for NaN, which is what rows too far for their dtype give."""
    with np.errstate(over="ignore", invalid="ignore"):
        scores = kernel(Z)
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
