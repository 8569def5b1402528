"""Projection: how far a feature reaches in the direction of a class mean.

    score(z) = max_k |z| cos(mu_k, z) = max_k z·mu_k / |mu_k|,   mu_k = mean of class k

CTM times the length of z: where strangers have short features, as after many networks' last ReLU,
the length says something that the cosine leaves out; where they have long ones it misleads. Nguyen,
Nguyen, Ta, Nguyen-Tang, Doan, Thanh-Tung: A Cosine Similarity-based Method for Out-of-Distribution
Detection, 2023, take the length out. Higher = more typical. Fit: one pass. Score: one product with
the class means.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from typica.arrays import Array, namespace
from typica.detectors._bases.means import LearnsClassMeans, mean_directions
from typica.detectors.base import Detector
from typica.store import storable
from typica.tags import Tags


@storable("projection")
class Projection(LearnsClassMeans, Detector):
    """Largest scalar projection on the mean of a class.

    Without labels all rows count as one class.

    >>> train = np.array([[2.0, 0.1], [0.1, 3.0]] * 10)
    >>> detector = Projection().fit(train, ["right", "up"] * 10)
    >>> detector.score_samples(np.array([[5.0, 0.0], [0.0, 0.0], [-1.0, -1.0]])).round(2)
    array([ 4.99,  0.  , -1.03])
    """

    tags = Tags(
        uses_labels=True,
        mergeable=True,
        fit_cost="O(N m)",
        score_cost="O(m C)",
        memory="O(m C)",
        reference="textbook; the length that CTM leaves out",
    )
    _directions: NDArray[np.float64]

    def _derive(self) -> None:
        self._directions = mean_directions(self.moments_)

    def _score(self, Z: Array) -> Array:
        return self._score_and_similarities(Z)[0]

    def _score_and_similarities(self, Z: Array) -> tuple[Array, Array]:
        reaches = self._similarities(Z)
        return namespace(reaches).max(reaches, axis=1), reaches

    def _similarities(self, Z: Array) -> Array:
        return Z @ self._like("_directions", Z).T

    def _score_width(self) -> int:
        return len(self._directions)
