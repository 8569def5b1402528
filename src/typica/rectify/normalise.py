"""L2Normalise: every row is brought to length 1.

    rectified(z) = z / |z|;   a zero row stays zero

Unlike scikit-learn's Normalizer it takes tensors, with gradients, and rows so long or short that
their squares overflow or vanish. Nothing is learnt. Transform: one pass.
"""

from __future__ import annotations

from typica.arrays import Array
from typica.estimator import Tags
from typica.linalg import directed
from typica.rectify.base import SameWidth
from typica.store import storable


def unit_length(Z: Array) -> Array:
    """Return the rows of Z (n, m) divided by their lengths; zero rows stay zero.

    >>> import numpy as np
    >>> unit_length(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    Z, lengths, _ = directed(Z)  # the length of a zero row is given as 1
    return Z / lengths[:, None]


@storable("normalise")
class L2Normalise(SameWidth):
    """Bring every row to length 1; ready without `fit`.

    >>> import numpy as np
    >>> L2Normalise().transform(np.array([[3.0, 4.0]]))
    array([[0.6, 0.8]])
    """

    tags = Tags(
        needs_fit=False,
        fit_cost="none",
        score_cost="O(m)",
        memory="none",
        reference="textbook",
    )

    def _rectify(self, Z: Array) -> Array:
        return unit_length(Z)
