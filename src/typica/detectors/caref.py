"""CARef: how far a feature is from the mean of its predicted class, relative to its own length.

    score(z) = -|z - mu_k|_1 / |z|_1,   k = the class that the head predicts for z
    mu_k = mean of the training features for which the head predicts k, right or wrong

Ling, Chang, Zhao, Zhao, Chow, Deng: CADRef: Robust Out-of-Distribution Detection via Class-Aware
Decoupled Relative Feature Leveraging, CVPR 2025. Higher = more typical, as in the authors' code. No
labels are needed. Fit: one pass, with a product with the head. Score: one product with the head.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from typica.arrays import Array, Labels, Rows, map_rows, namespace
from typica.detectors._bases.headed import MomentsDetector
from typica.head import HEAD, Head
from typica.store import storable
from typica.tags import Tags


def relative(amounts: Array, Z: Array) -> Array:
    """Return the sums of the rows of `amounts` (n, m) over |z|_1; infinity where z is zero.

    >>> relative(np.array([[1.0, 2.0], [0.0, 1.0]]), np.array([[3.0, -3.0], [0.0, 0.0]]))
    array([0.5, inf])
    """
    xp = namespace(Z)
    lengths = xp.sum(xp.abs(Z), axis=1)
    zero = lengths == 0
    ratios = xp.sum(amounts, axis=1) / xp.where(zero, xp.ones_like(lengths), lengths)
    return xp.where(zero, xp.full_like(ratios, xp.inf), ratios)


@storable("caref")
class CARef(MomentsDetector):
    """Class-aware relative feature error.

    A class that is predicted for no training row has the mean zero, so that rows for which it is
    predicted score -1. A zero row scores -inf.

    >>> train = np.array([[4.0, 0.0], [0.0, 2.0]] * 10)
    >>> CARef(Head(np.eye(2))).fit(train).score_samples(np.array([[4.0, 1.0], [1.0, 4.0]]))
    array([-0.2, -0.6])
    """

    tags = Tags(
        needs_head=True,
        mergeable=True,
        fit_cost="O(N m C)",
        score_cost="O(m C)",
        memory="O(m C)",
        reference="Ling et al. 2025, CVPR",
    )
    params = {"head": HEAD}
    learnt_by = ("head",)
    _means: NDArray[np.float64]

    def __init__(self, head: Head | None = None) -> None:
        self.head = head

    def _learn(self, Z: Rows, labels: Labels | None) -> None:
        predicted = map_rows(
            lambda rows: np.argmax(self._head.logits(rows), axis=1), Z, self._score_width()
        )
        super()._learn(Z, predicted)

    def _derive(self) -> None:
        means = np.zeros((len(self._head.classes), self.moments_.n_features))
        means[self.moments_.classes] = self.moments_.means
        self._means = means  # whole, for other threads

    def _score_with_logits(self, Z: Array, L: Array) -> Array:
        xp = namespace(Z)
        predicted = xp.argmax(L, axis=1)
        return -relative(xp.abs(Z - xp.take(self._like("_means", Z), predicted, axis=0)), Z)
