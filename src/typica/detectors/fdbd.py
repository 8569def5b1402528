"""fDBD: the mean distance to the decision boundaries, over the distance to the training mean.

    score(z) = 1/(C-1) sum_{c != k} |l_k - l_c| / |w_k - w_c|  /  |z - mu|
    k = argmax l, l = logits of z

with w the rows of the head's weight and mu the mean of all training features. Liu, Qin: Fast
Decision Boundary based Out-of-Distribution Detector, ICML 2024. Higher = more typical, as printed
(the authors' code has the sum in place of the mean: the same order). Fit: one pass. Score: one
product with the head.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from typica.arrays import Array, namespace
from typica.detectors._bases.headed import MomentsDetector
from typica.errors import InputError
from typica.head import HEAD, Head
from typica.linalg import units
from typica.store import storable
from typica.tags import Tags


@storable("fdbd")
class FDBD(MomentsDetector):
    """Fast decision boundary based detector.

    Between two classes of equal weight there is no boundary: such pairs are left out of the mean. A
    row that is equal to the training mean has no direction from it; it scores 0, the least there
    is.

    >>> detector = FDBD(Head(np.eye(2))).fit(np.array([[2.0, 0.0], [0.0, 2.0]] * 10))
    >>> detector.score_samples(np.array([[4.0, 1.0], [1.0, 1.0]])).round(4)
    array([0.7071, 0.    ])
    """

    tags = Tags(
        needs_head=True,
        mergeable=True,
        fit_cost="O(N m)",
        score_cost="O(m C)",
        memory="O(m C + C^2)",
        reference="Liu & Qin 2024, ICML",
    )
    params = {"head": HEAD}
    _shares: NDArray[np.float64]

    def __init__(self, head: Head | None = None) -> None:
        self.head = head

    def _derive(self) -> None:
        gaps = cdist(self._head.weight.astype(np.float64), self._head.weight.astype(np.float64))
        boundaries = np.sum(gaps > 0, axis=1, keepdims=True)
        if not boundaries.all():
            name = self.classes_[np.argmin(boundaries)]
            raise InputError(
                f"class {name!s} of the head has no decision boundary; "
                "pass a head of two or more classes that differ in weight."
            )
        # One over the distance of the weights, and over the number of boundaries; 0 where there is
        # none.
        self._shares = np.divide(1 / boundaries, gaps, out=np.zeros_like(gaps), where=gaps > 0)

    def _score_with_logits(self, Z: Array, L: Array) -> Array:
        xp = namespace(Z)
        gaps = xp.max(L, axis=1, keepdims=True) - L
        shares = xp.take(self._like("_shares", Z), xp.argmax(L, axis=1), axis=0)
        D = self._from_mean(Z)
        U, at_mean = units(D)
        lengths = xp.where(at_mean, xp.ones_like(D[:, 0]), xp.vecdot(U, D))
        scores = xp.vecdot(gaps, shares) / lengths
        return xp.where(at_mean, xp.zeros_like(scores), scores)
