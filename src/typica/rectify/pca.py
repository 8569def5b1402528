"""PCA: features are replaced by their coordinates along the leading principal directions.

    rectified(z) = Vᵀ (z - mean)
    V (m, d) = the d directions of largest variance of the training features

Each direction is given the sign that makes its largest entry positive. Unlike scikit-learn's PCA it
streams, merges and takes tensors, with gradients. Pearson: On Lines and Planes of Closest Fit to
Systems of Points in Space, Philosophical Magazine 1901. Fit: one pass for the moments and one
eigendecomposition. Transform: one product with an (m, d) matrix.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from typica.arrays import Array, Labels, Rows, like
from typica.checks import optional, share_or_count
from typica.errors import InputError
from typica.estimator import LearnsMoments
from typica.linalg import anchor
from typica.rectify._axes import axes_of
from typica.rectify.base import NewWidth
from typica.store import storable
from typica.tags import Tags


@storable("pca")
class PCA(LearnsMoments, NewWidth):
    """Project on the leading principal directions `components_` (d, m).

    n_components: d as a whole number; or a share below 1, to keep as few directions as hold that
    share of the variance; or None, to keep all in which the training features vary. Never more than
    these.

    >>> train = np.array([[0.0, 1.0], [4.0, 1.0], [8.0, 1.0]])
    >>> PCA(n_components=1).fit(train).transform(np.array([[5.0, 1.0], [4.0, 9.0]]))
    array([[1.],
           [0.]])
    """

    tags = Tags(
        mergeable=True,
        tolerance=(1e-5, 1e-10),
        fit_cost="O(N m² + m³)",
        score_cost="O(m d), d components kept",
        memory="O(m²)",
        reference="Pearson 1901, Philosophical Magazine",
    )
    params = {
        "n_components": optional(
            share_or_count(
                "an integer of at least 1, or a share of the variance between 0 and 1",
                "{name}={value!r} is not a number of directions; pass a whole number >= 1, "
                "a share of the variance between 0 and 1, or None.",
            )
        )
    }
    _basis: NDArray[np.float64]
    _centre: NDArray[np.float64]
    _shift: NDArray[np.float64]
    _scatter = True

    def __init__(self, n_components: int | float | None = None) -> None:
        self.n_components = n_components

    def _learn(self, Z: Rows, labels: Labels | None) -> None:
        m = Z.shape[1]
        if (self.n_components or 0) > m:
            raise InputError(
                f"n_components={self.n_components} exceeds the {m} features; "
                f"pass n_components<={m}."
            )
        super()._learn(Z, labels)

    def _derive(self) -> None:
        moments = self.moments_
        variances, vectors = axes_of(moments)
        vectors = vectors[:, : _axes_to_keep(self.n_components, variances)]
        signs = np.sign(vectors[np.argmax(np.abs(vectors), axis=0), np.arange(vectors.shape[1])])
        self._basis = vectors * signs
        mean = moments.mean
        # Moved by what float32 holds exactly: rows with a large offset lose no digits to it.
        self._centre = anchor(mean)
        self._shift = (mean - self._centre) @ self._basis

    @property
    def components_(self) -> NDArray[np.float64]:
        """The principal directions (d, m), orthonormal, largest variance first."""
        if not self._has_learnt():
            raise AttributeError(f"{type(self).__name__} has no components before it is fitted")
        self._prepare()
        return np.array(self._basis.T)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def _rectify(self, Z: Array) -> Array:
        return (Z - like(self._centre, Z)) @ like(self._basis, Z) - like(self._shift, Z)


def _axes_to_keep(wanted: int | float | None, variances: NDArray[np.float64]) -> int:
    """Return how many directions a rectifier keeps of those with these variances, largest first."""
    if wanted is None:
        return len(variances)
    if wanted >= 1:
        return min(int(wanted), len(variances))
    return int(np.searchsorted(np.cumsum(variances) / variances.sum(), wanted)) + 1
