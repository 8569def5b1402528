"""Mahalanobis: the distance to the nearest class mean under one covariance for all classes.

    score(z) = -min_k (z - mu_k)ᵀ P (z - mu_k) / 2,   mu_k = mean of class k,   P = pinv(S),
    S = sum over all training rows of (z - mu_class)(z - mu_class)ᵀ / N

Lee, Lee, Lee, Shin: A Simple Unified Framework for Detecting Out-of-Distribution Samples and
Adversarial Attacks, NeurIPS 2018; here on one layer and without its step on the input. Higher =
more typical; the score is the log density of the nearest class but for a constant. With
`shrinkage=d` S becomes (1 - d) S + d tr(S)/m I, for few rows or nearly collinear features; d may be
estimated from the rows, by "oas" (Chen et al. 2010) or "ledoit_wolf" (Ledoit & Wolf 2004).

Fit: one pass (two for "ledoit_wolf", which therefore learns from all rows at once and does not
merge), and the eigendecomposition of S. Score: one product with a factor of P, one with the class
means. The class is found by expanding the square, its distance is then taken from the difference
itself, which does not cancel.
"""

from __future__ import annotations

from typing import Self

import numpy as np

from typica.arrays import Array, Labels, Rows
from typica.detectors._bases.means import LearnsClassMeans
from typica.detectors._bases.scatter import ScatterDetector, nan_as_minus_infinity
from typica.detectors._shrinkage import SHRINKAGE, fourth_powers, ledoit_wolf, oas
from typica.errors import InputError
from typica.linalg import Floats, anchor, shrunk_factor, squares_and_halves, squares_to_nearest
from typica.store import storable
from typica.tags import Tags


@storable("mahalanobis")
class Mahalanobis(LearnsClassMeans, ScatterDetector):
    """Mahalanobis distance to the nearest class mean.

    Without labels all rows count as one class. Directions in which the training features do not
    vary within any class (constant features, fewer rows than features) do not count in the
    distance, as in scikit-learn's EmpiricalCovariance: a variance of at most 2e-16 * max(m,
    sqrt(N)) times the largest is none. `Residual` and `PCAReconstruction` watch such directions.
    With a shrinkage every direction counts.

    With v the ratio of the largest to the smallest variance of a direction, float32 scores err by
    about 2e-8 sqrt(v) of the largest (2e-5 at v = 1e6; less where features are uncorrelated),
    float64 ones by less than 1e-15 v.

    >>> import numpy as np
    >>> left, right = [[0.0, 1.0], [0.0, -1.0], [1.0, 0.0]], [[9.0, 1.0], [9.0, -1.0], [8.0, 0.0]]
    >>> train = np.array((left + right) * 5)
    >>> detector = Mahalanobis().fit(train, (["left"] * 3 + ["right"] * 3) * 5)
    >>> detector.score_samples(np.array([[0.5, 0.0], [4.5, 0.0]])).round(1)
    array([ -0.1, -39.1])
    >>> detector.classify(np.array([[0.5, 0.0]]))
    array(['left'], dtype='<U5')
    """

    tags = Tags(
        uses_labels=True,
        mergeable=True,
        tolerance=(1e-5, 1e-10),
        fit_cost="O(N m² + m³)",
        score_cost="O(m² + m C)",
        memory="O(m² + m C)",
        reference="Lee et al. 2018, NeurIPS",
    )
    params = {"shrinkage": SHRINKAGE}

    fourth_: float
    _center: Floats
    _factor: Floats
    _means: Floats

    def __init__(self, shrinkage: float | str | None = None) -> None:
        self.shrinkage = shrinkage

    def _learn(self, Z: Rows, labels: Labels | None) -> None:
        if self.shrinkage == "ledoit_wolf" and hasattr(self, "moments_"):
            raise _needs_all_rows()
        super()._learn(Z, labels)
        if self.shrinkage == "ledoit_wolf":
            self.fourth_ = fourth_powers(Z, labels, self.moments_)

    def _absorb(self, other: Self) -> None:
        if self.shrinkage == "ledoit_wolf" and self._has_learnt():
            raise _needs_all_rows()
        super()._absorb(other)
        if self.shrinkage == "ledoit_wolf":
            self.fourth_ = other.fourth_

    def _shrinkage(self, S: Floats) -> float:
        """Return how far the covariance S within classes is shrunk, from 0 to 1."""
        n = self.moments_.n
        if self.shrinkage == "oas":
            return oas(S, n)
        if self.shrinkage != "ledoit_wolf":
            return float(self.shrinkage or 0.0)
        if not hasattr(self, "fourth_"):
            raise InputError("shrinkage='ledoit_wolf' was set after the fit; call fit again.")
        return ledoit_wolf(S, n, self.fourth_)

    def _derive(self) -> None:
        self._center, self._factor = self._whitening()
        self._means = (self.moments_.means - self._center) @ self._factor

    def _whitening(self) -> tuple[Floats, Floats]:
        """Return the centre (m,) about which rows are whitened, and the factor (m, r) of P."""
        moments = self.moments_
        scatter = moments.scatter_within()
        varies = bool(scatter.any())
        shrinkage = self._shrinkage(scatter / moments.n) if varies else 0.0
        factor = shrunk_factor(scatter, moments.n, shrinkage)
        if not factor.shape[1]:
            found = f"n_samples={moments.n} in {len(moments.classes)} class(es)"
            raise InputError(
                f"{found} do not vary within a class, so there is no covariance; "
                "pass rows that differ, several per class."
            )
        return anchor(moments.mean), factor

    def _whitened(self, Z: Array) -> Array:
        return (Z - self._like("_center", Z)) @ self._like("_factor", Z)

    def _typicality(self, Z: Array) -> Array:
        return squares_to_nearest(self._whitened(Z), self._like("_means", Z)) / -2

    def _similarities(self, Z: Array) -> Array:
        return self._score_and_similarities(Z)[1]

    def _score_and_similarities(self, Z: Array) -> tuple[Array, Array]:
        with np.errstate(over="ignore", invalid="ignore"):
            W = self._whitened(Z)
            squares, halves = squares_and_halves(W, self._like("_means", W))
            scores, similarities = self._of_distances(W, squares, halves)
        return nan_as_minus_infinity(scores), nan_as_minus_infinity(similarities)

    def _of_distances(self, W: Array, squares: Array, halves: Array) -> tuple[Array, Array]:
        """Return scores and similarities by distances of whitened rows W to the means."""
        return squares / -2, halves

    def _score_width(self) -> int:
        return int(max(self._means.shape))


def _needs_all_rows() -> InputError:
    return InputError(
        "shrinkage='ledoit_wolf' needs all rows at once; fit on all of them, or pass "
        "shrinkage='oas', which merges."
    )
