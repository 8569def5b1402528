"""MDSpp, Mahalanobis++: the Mahalanobis distance between features of one length.

    score(z) = Mahalanobis' score of z / |z|^beta,   beta = 1

Müller, Hein: Mahalanobis++: Improving OOD Detection via Feature Normalization, ICML 2025. Lengths
that differ between classes, or are far from those of a Gaussian, no longer count. Other exponents:
Janiak, Binkowski, Kajdanowicz: A Geometry-Based View of Mahalanobis OOD Detection, 2025. It is
`make_pipeline(L2Normalise(exponent=beta), Mahalanobis())` in one detector that streams and merges.
Higher = more typical. Fit and score: as `Mahalanobis`, and one pass for the lengths.
"""

from __future__ import annotations

from dataclasses import replace

from typica.arrays import Array, Labels, Rows, map_rows
from typica.checks import finite
from typica.detectors._shrinkage import SHRINKAGE
from typica.detectors.mahalanobis import Mahalanobis
from typica.errors import InputError
from typica.linalg import Floats, over_lengths
from typica.store import storable


class Radial(Mahalanobis):
    """Mahalanobis distances, or others made of them, between the rows z / |z|^exponent."""

    params = {"exponent": finite(), "shrinkage": SHRINKAGE}
    learnt_by = ("exponent",)

    def __init__(self, exponent: float = 1.0, shrinkage: float | str | None = None) -> None:
        self.exponent = exponent
        self.shrinkage = shrinkage

    def _learn(self, Z: Rows, labels: Labels | None) -> None:
        if Z.shape[1] == 1 and self.exponent == 1:
            raise InputError("1 feature(s) have one direction only; pass more, or exponent<1.")
        super()._learn(map_rows(self._scaled, Z), labels)

    def _whitened(self, Z: Array) -> Array:
        return super()._whitened(self._scaled(Z))

    def _scaled(self, Z: Array) -> Array:
        return over_lengths(Z, self.exponent)

    @property
    def means_(self) -> Floats:
        """The class means (C, m) of the scaled rows, in the order of `classes_`."""
        return super().means_


@storable("mds_pp")
class MDSpp(Radial):
    """Mahalanobis distance to the nearest class mean after normalisation.

    exponent: 1 brings all rows to one length, 0 leaves them as they are. shrinkage: as in
    `Mahalanobis`. A zero row stays zero.

    >>> import numpy as np
    >>> left, right = [[1.0, 0.1], [3.0, -0.3], [2.0, 0.1]], [[0.1, 1.0], [-0.3, 3.0], [0.1, 2.0]]
    >>> train = np.array((left + right) * 5)
    >>> detector = MDSpp().fit(train, (["right"] * 3 + ["up"] * 3) * 5)
    >>> one, two, between = detector.score_samples(np.array([[1.0, 0.0], [9.0, 0.0], [1.0, 1.0]]))
    >>> bool(np.isclose(one, two)), bool(between < one)
    (True, True)
    """

    tags = replace(Mahalanobis.tags, reference="Müller & Hein 2025, ICML")
