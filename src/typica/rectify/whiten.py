"""Whiten: features are centred, decorrelated and of variance 1, turned as little as possible.

    rectified(z) = S^(-1/2) (z - mean)
    S = covariance of the training features (divided by their number)

S^(-1/2) is the symmetric root (ZCA): it has no signs or order to choose, so that a merged fit
equals a single one. Directions in which the training features do not vary become zero. With
`within_classes` S is the tied covariance about the class means; Euclidean distances between
whitened features are Mahalanobis distances then. Kessy, Lewin, Strimmer: Optimal Whitening and
Decorrelation, The American Statistician 2018. Fit: one pass for the moments, which stream and
merge, and one eigendecomposition. Transform: one product with an (m, m) matrix.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from typica.arrays import Array, Labels, Rows, like
from typica.checks import truth
from typica.errors import InputError
from typica.estimator import LearnsMoments
from typica.linalg import anchor
from typica.rectify._axes import axes_of
from typica.rectify.base import SameWidth
from typica.store import storable
from typica.tags import Tags


@storable("whiten")
class Whiten(LearnsMoments, SameWidth):
    """Whiten with the covariance of the training features, or with that within their classes.

    >>> train = np.array([[0.0, 0.0], [0.0, 4.0], [6.0, 0.0], [6.0, 4.0]])
    >>> Whiten().fit_transform(train).round(9).tolist()
    [[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]]
    """

    tags = Tags(
        uses_labels=True,
        mergeable=True,
        tolerance=(1e-3, 1e-9),
        fit_cost="O(N m² + m³)",
        score_cost="O(m²)",
        memory="O(m²)",
        reference="Kessy, Lewin & Strimmer 2018, The American Statistician",
    )
    params = {"within_classes": truth()}
    _matrix: NDArray[np.float64]
    _centre: NDArray[np.float64]
    _shift: NDArray[np.float64]
    _scatter = True

    def __init__(self, within_classes: bool = False) -> None:
        self.within_classes = within_classes

    def _learn(self, Z: Rows, labels: Labels | None) -> None:
        if self.within_classes and labels is None:
            raise InputError("within_classes needs labels to tell the classes; pass y.")
        super()._learn(Z, labels if self.within_classes else None)

    def _derive(self) -> None:
        moments = self.moments_
        mean = moments.mean
        variances, vectors = axes_of(moments)
        vectors = vectors[:, : len(variances)]
        self._matrix = vectors / np.sqrt(variances) @ vectors.T
        # Moved by what float32 holds exactly: rows with a large offset lose no digits to it.
        self._centre = anchor(mean)
        self._shift = (mean - self._centre) @ self._matrix

    def _rectify(self, Z: Array) -> Array:
        return (Z - like(self._centre, Z)) @ like(self._matrix, Z) - like(self._shift, Z)
