"""NECO: how much of a feature lies in the principal subspace, times its largest logit.

    score(z) = |Vᵀ s| / |s| · max_k l_k,   s_j = (z_j - mean_j) / sigma_j

with the mean and standard deviation of each feature over the training rows, the columns of V the
leading directions of the standardised training rows, and l the logits of z. Under neural collapse
known inputs lie in that subspace and others near its origin. The largest logit is left out where
there is no head; the paper multiplies by it for transformers and not for ResNets.

Ben Ammar, Belkhir, Popescu, Manzanera, Franchi: NECO: NEural Collapse Based Out-of-distribution
detection, ICLR 2024. Higher = more typical, as printed. The paper prints z in place of s; its
authors' code standardises. Without `standardise` it is |Vᵀ (z - mean)| / |z|, as there. By default
the subspace holds 90 % of the variance, the paper's rule of thumb. Fit: one pass, and an
eigendecomposition. Score: one product with V, one with the head.
"""

from __future__ import annotations

import numpy as np

from typica.arrays import Array, Labels, Rows, namespace
from typica.checks import count, optional, truth
from typica.detectors._bases.headed import ClassesOfHead
from typica.detectors._bases.scatter import ScatterDetector, check_dim, nan_as_minus_infinity
from typica.errors import InputError
from typica.head import HEAD, Head
from typica.linalg import Floats, principal_axes, safe_root
from typica.store import storable
from typica.tags import Tags

SHARE = 0.9  # of the variance, that the subspace holds by default


@storable("neco")
class NECO(ClassesOfHead, ScatterDetector):
    """Share of a feature in the principal subspace, times the largest logit if there is a head.

    A row that equals the mean of all training rows scores 0.

    Parameters
    ----------
    head
        The classifier's last layer; None leaves out the logit.
    dim
        Of the subspace; None takes as few directions as hold 90 % of the variance, but not all.
    standardise
        Bring every feature to mean 0 and variance 1 first; one that is constant in training keeps
        its scale.

    >>> train = np.array([[4.0, 0.1], [-4.0, 0.2], [4.0, 0.0], [-4.0, -0.3]] * 5)
    >>> detector = NECO(dim=1, standardise=False).fit(train)
    >>> detector.score_samples(np.array([[9.0, 0.0], [9.0, 9.0]])).round(2)
    array([1.  , 0.72])
    """

    tags = Tags(
        uses_head=True,
        mergeable=True,
        tolerance=(1e-5, 1e-10),
        fit_cost="O(N m² + m³)",
        score_cost="O(m dim + m C)",
        memory="O(m² + m C)",
        reference="Ben Ammar et al. 2024, ICLR",
    )
    params = {"head": HEAD, "dim": optional(count()), "standardise": truth()}
    _mean: Floats
    _scale: Floats
    _basis: Floats

    def __init__(
        self, head: Head | None = None, dim: int | None = None, standardise: bool = True
    ) -> None:
        self.head = head
        self.dim = dim
        self.standardise = standardise

    def _learn(self, Z: Rows, labels: Labels | None) -> None:
        if Z.shape[1] == 1:
            raise InputError("1 feature(s) leave nothing outside of a subspace; pass more.")
        check_dim(self.dim, Z.shape[1])
        super()._learn(Z, labels)

    def _derive(self) -> None:
        moments = self.moments_
        check_dim(self.dim, moments.n_features)
        self._mean = moments.mean
        scatter = moments.scatter_about(self._mean)
        sigma = np.sqrt(np.diag(scatter) / moments.n)
        self._scale = np.where((sigma > 0) & self.standardise, sigma, 1.0)
        scatter = scatter / np.outer(self._scale, self._scale)
        variances, vectors = principal_axes(scatter, moments.n)
        if not len(variances):
            raise InputError(
                f"the features do not vary over {moments.n} sample(s); "
                "pass more, or other, training rows."
            )
        self._basis = np.ascontiguousarray(vectors[:, : self._dim(variances)])

    def _dim(self, variances: Floats) -> int:
        """Return how many of the directions with these variances the subspace holds."""
        if self.dim is not None:
            return min(int(self.dim), len(variances))
        shares = np.cumsum(variances) / variances.sum()
        count = int(np.searchsorted(shares, SHARE)) + 1
        # One is left out, or every row would lie in the subspace.
        return min(count, len(self._mean) - 1)

    def _typicality(self, Z: Array) -> Array:
        return self._times_largest(self._similarities(Z), Z)

    def _times_largest(self, L: Array | None, Z: Array) -> Array:
        """Return the share of rows Z in the subspace, times the largest of their logits L."""
        share = self._share(Z)
        return share if L is None else share * namespace(L).max(L, axis=1)

    def _share(self, Z: Array) -> Array:
        """Return how much of each row's length lies in the principal subspace."""
        xp = namespace(Z)
        S = (Z - self._like("_mean", Z)) / self._like("_scale", Z)
        whole = S if self.standardise else Z
        largest = xp.max(xp.abs(whole), axis=1)
        none = largest == 0
        one = xp.ones_like(largest)
        # Divided first, so that squares neither overflow nor underflow.
        unit = xp.where(none, one, largest)[:, None]
        inside, whole = (S / unit) @ self._like("_basis", Z), whole / unit
        ratio = xp.vecdot(inside, inside) / xp.where(none, one, xp.vecdot(whole, whole))
        return safe_root(xp.where(none, xp.zeros_like(ratio), ratio))

    def _similarities(self, Z: Array) -> Array | None:
        return None if self.head is None else self.head.logits(Z)

    def _score_and_similarities(self, Z: Array) -> tuple[Array, Array | None]:
        with np.errstate(over="ignore", invalid="ignore"):
            L = self._similarities(Z)
            scores = self._times_largest(L, Z)
        return nan_as_minus_infinity(scores), L

    def _score_width(self) -> int:
        classes = 0 if self.head is None else len(self.head.classes)
        return max(int(self._basis.shape[1]), classes)
