"""SCALE: a row is multiplied by how little of its activation its largest activations hold.

    rectified(z) = z exp(r),   r = Σ_j z_j / Σ_{j in T} z_j,   T = the k largest activations of z

k is what lies above the percentile p of the row: m - round(m p / 100), at least 1. Xu, Chen,
Franchi, Yao: Scaling for Training Time and Post-hoc Out-of-distribution Detection Enhancement, ICLR
2024; p = 85 as there.

The paper takes activations after a ReLU. Here the sums run over the positive activations, which is
the same after a ReLU; negative ones are scaled with the rest of their row. A row without positive
activations stays as it is. The direction of a row stays: a score of cosines (CTM) sees no
difference. Nothing is learnt. Transform: one selection per row.
"""

from __future__ import annotations

from typica.arrays import Array
from typica.checks import percentile
from typica.largest import k_largest
from typica.rectify._activations import kept_count, positive_part, sharpening
from typica.rectify.base import SameWidth
from typica.store import storable
from typica.tags import Tags


def scale(Z: Array, percentile: float = 85) -> Array:
    """Return the rows of Z (n, m), each times exp(sum of all / sum of the largest).

    >>> import numpy as np
    >>> bool(scale(np.array([[1.0, 3.0]]), 50)[0, 0] == np.exp(4 / 3))
    True
    """
    P = positive_part(Z)
    return Z * sharpening(P, k_largest(P, kept_count(Z.shape[1], percentile)))


@storable("scale")
class SCALE(SameWidth):
    """Scale every row by its own activations; ready without `fit`.

    >>> import numpy as np
    >>> SCALE(percentile=50).transform(np.array([[0.0, 2.0], [2.0, 2.0]])).round(2).tolist()
    [[0.0, 5.44], [14.78, 14.78]]
    """

    tags = Tags(
        needs_fit=False,
        fit_cost="none",
        score_cost="O(m)",
        memory="none",
        reference="Xu, Chen, Franchi & Yao 2024, ICLR",
    )
    params = {"percentile": percentile()}

    def __init__(self, percentile: float = 85) -> None:
        self.percentile = percentile

    def _rectify(self, Z: Array) -> Array:
        return scale(Z, self.percentile)
