"""L2Normalise: every row is brought to length 1, or part of the way there.

    rectified(z) = z / |z|^beta;   a zero row stays zero

With the exponent beta = 1 all rows have length 1, with 0 they stay as they are; below 0 lengths are
drawn apart, above 1 they are turned round. Müller, Hein: Mahalanobis++: Improving OOD Detection via
Feature Normalization, ICML 2025, put beta = 1 before Mahalanobis distances (`MDSpp`, `RMDSpp`);
Janiak, Binkowski, Kajdanowicz: A Geometry-Based View of Mahalanobis OOD Detection, 2025, other
exponents.

Unlike scikit-learn's Normalizer it takes tensors, with gradients, and rows so long or short that
their squares overflow or vanish. Nothing is learnt. Transform: one pass.
"""

from __future__ import annotations

from typica.arrays import Array
from typica.checks import finite
from typica.linalg import over_lengths, unit_length
from typica.rectify.base import SameWidth
from typica.store import storable
from typica.tags import Tags


@storable("normalise")
class L2Normalise(SameWidth):
    """Bring every row z to z / |z|^exponent; ready without `fit`.

    >>> import numpy as np
    >>> L2Normalise().transform(np.array([[3.0, 4.0]]))
    array([[0.6, 0.8]])
    >>> L2Normalise(exponent=0.5).transform(np.array([[0.0, 4.0]]))
    array([[0., 2.]])
    """

    tags = Tags(
        needs_fit=False,
        fit_cost="none",
        score_cost="O(m)",
        memory="none",
        reference="textbook; Müller & Hein 2025, ICML",
    )
    params = {"exponent": finite()}

    def __init__(self, exponent: float = 1.0) -> None:
        self.exponent = exponent

    def _rectify(self, Z: Array) -> Array:
        return unit_length(Z) if self.exponent == 1 else over_lengths(Z, self.exponent)
