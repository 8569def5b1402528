"""GMM: the density of a mixture of one Gaussian per class, with one covariance for all.

    score(z) = log sum_k pi_k exp(-d_k(z) / 2),   d_k(z) = (z - mu_k)ᵀ P (z - mu_k)

with the class means mu_k and the inverse covariance P of `Mahalanobis`, and pi_k the share of class
k among the training rows. But for a constant it is the log density of the mixture. Morteza, Li:
Provable Guarantees for Understanding Out-of-Distribution Detection, AAAI 2022 (GEM), study it with
equal pi_k. Higher = more typical. Fit and score: as `Mahalanobis`.
"""

from __future__ import annotations

import numpy as np

from typica.arrays import Array
from typica.detectors.mahalanobis import Mahalanobis
from typica.linalg import Floats, half_squares, logsumexp
from typica.store import storable
from typica.tags import Tags


@storable("gmm")
class GMM(Mahalanobis):
    """Log density of a mixture of Gaussians, one per class, with a common covariance.

    Without labels there is one Gaussian. Directions in which the training features do not vary, and
    rounding: see `Mahalanobis`.

    >>> left, right = [[0.0, 1.0], [0.0, -1.0], [1.0, 0.0]], [[9.0, 1.0], [9.0, -1.0], [8.0, 0.0]]
    >>> train = np.array((left + right) * 5)
    >>> detector = GMM().fit(train, (["left"] * 3 + ["right"] * 3) * 5)
    >>> detector.score_samples(np.array([[0.5, 0.0], [4.5, 0.0]])).round(1)
    array([ -0.8, -39.1])
    """

    tags = Tags(
        uses_labels=True,
        mergeable=True,
        tolerance=(1e-5, 1e-10),
        fit_cost="O(N m² + m³)",
        score_cost="O(m² + m C)",
        memory="O(m² + m C)",
        reference="Morteza & Li 2022, AAAI",
    )

    _log_shares: Floats

    def _derive(self) -> None:
        super()._derive()
        self._log_shares = np.log(self.moments_.counts / self.moments_.n)

    def _typicality(self, Z: Array) -> Array:
        return logsumexp(self._log_joint(half_squares(self._whitened(Z), self._like("_means", Z))))

    def _of_distances(self, W: Array, squares: Array, halves: Array) -> tuple[Array, Array]:
        joint = self._log_joint(halves)
        return logsumexp(joint), joint

    def _log_joint(self, halves: Array) -> Array:
        """Return log(pi_k exp(-d_k / 2)) for each class, (n, C), by minus half of the d_k."""
        return halves + self._like("_log_shares", halves)
