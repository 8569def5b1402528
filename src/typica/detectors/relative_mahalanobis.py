"""RelativeMahalanobis: how much nearer a class is than the training data as a whole.

    score(z) = -min_k [d_k(z) - d_0(z)]
    d_k(z) = (z - mu_k)ᵀ S⁻¹ (z - mu_k),   d_0(z) = (z - mu)ᵀ S_0⁻¹ (z - mu)

with class means mu_k and covariance S within classes as in `Mahalanobis`, and mean mu and
covariance S_0 of all training rows, whatever their class. Since S_0 = S + B, B being the covariance
of the class means, one pass serves both. And since both distances are the same across the
directions in which the whitened class means do not differ, only the at most C - 1 others count:
with w the coordinates of z along them, and g the variances of the class means there (in units of
S),

    score(z) = sum w² / (1 + g) - min_k |w - w_k|²

Ren, Fort, Liu, Roy, Padhy, Lakshminarayanan: A Simple Fix to Mahalanobis Distance for Improving
Near-OOD Detection, 2021. Higher = more typical. With a `shrinkage` S is the shrunk covariance of
`Mahalanobis`, in S_0 = S + B too. Fit: one pass, an eigendecomposition of S and one
of B. Score: a product with an (m, C - 1) matrix and one with the class means.
"""

from __future__ import annotations

import numpy as np

from typica.arrays import Array, namespace
from typica.detectors.mahalanobis import Mahalanobis
from typica.errors import InputError
from typica.linalg import Floats, squares_to_nearest
from typica.store import storable
from typica.tags import Tags


@storable("relative_mahalanobis")
class RelativeMahalanobis(Mahalanobis):
    """Mahalanobis distance to the nearest class mean, less that to the mean of all rows.

    Needs the labels of at least two classes. Directions in which the training features do not vary
    within any class count in neither distance, unless there is a shrinkage: in d_0 alone they would
    make a row more typical the farther away it is. As to rounding, see `Mahalanobis`.

    >>> left, right = [[0.0, 1.0], [0.0, -1.0], [1.0, 0.0]], [[9.0, 1.0], [9.0, -1.0], [8.0, 0.0]]
    >>> train = np.array((left + right) * 5)
    >>> detector = RelativeMahalanobis().fit(train, (["left"] * 3 + ["right"] * 3) * 5)
    >>> detector.score_samples(np.array([[0.5, 0.0], [4.5, 0.0]])).round(1)
    array([  0.8, -78.1])
    """

    tags = Tags(
        needs_labels=True,
        uses_labels=True,
        mergeable=True,
        tolerance=(1e-5, 1e-10),
        fit_cost="O(N m² + m³ + m C²)",
        score_cost="O(m C + C²)",
        memory="O(m² + m C)",
        reference="Ren et al. 2021, "
        "A Simple Fix to Mahalanobis Distance for Improving Near-OOD Detection",
    )

    _shift: Floats
    _shrink: Floats

    def _derive(self) -> None:
        moments = self.moments_
        if len(moments.classes) == 1:
            raise InputError(
                "1 class is as near as all of them together; pass labels of two classes or more."
            )
        center, factor = self._whitening()
        mean = moments.mean
        V = (moments.means - mean) @ factor
        _, roots, axes = np.linalg.svd(
            np.sqrt(moments.counts / moments.n)[:, None] * V, full_matrices=False
        )
        axes = axes[: len(V) - 1].T  # the last root is 0: the weighted means sum to 0
        # Each is set once: another thread may score by what an earlier one has derived.
        self._center, self._factor, self._means = center, factor @ axes, V @ axes
        self._shift = (mean - center) @ self._factor
        self._shrink = 1 / (1 + roots[: axes.shape[1]] ** 2)

    def _whitened(self, Z: Array) -> Array:
        return super()._whitened(Z) - self._like("_shift", Z)

    def _overall(self, W: Array) -> Array:
        """Return what d_0 adds along the coordinates W (n, r)."""
        return namespace(W).vecdot(W * self._like("_shrink", W), W)

    def _typicality(self, Z: Array) -> Array:
        W = self._whitened(Z)
        return self._overall(W) - squares_to_nearest(W, self._like("_means", W))

    def _of_distances(self, W: Array, squares: Array, halves: Array) -> tuple[Array, Array]:
        overall = self._overall(W)
        return overall - squares, overall[:, None] + 2 * halves
