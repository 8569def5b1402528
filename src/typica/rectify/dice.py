"""DICE: logits from the weights alone that contribute most in training.

    rectified(z) = (M ∘ W) z + b
    M_kj = 1 where V_kj = W_kj mean_j exceeds the percentile p of all of V, else 0

W (C, m) and b are the head's, mean is that of the training features. The output is logits: put a
detector of logits without a head behind it, `make_pipeline(DICE(head), Energy())`. Sun, Li: DICE:
Leveraging Sparsification for Out-of-Distribution Detection, ECCV 2022; p = 90 is their choice for
CIFAR, 70 for ImageNet. Where more weights than that contribute equally, as little as nothing, fewer
may be kept. Fit: one pass for the mean, which streams and merges. Transform: one product with the
head.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from typica.arrays import Array, like
from typica.checks import percentile
from typica.estimator import LearnsMoments
from typica.head import HEAD, Head
from typica.rectify.base import NewWidth
from typica.store import storable
from typica.tags import Tags


def sparsify(
    weight: NDArray[np.floating], mean: NDArray[np.floating], percentile: float
) -> NDArray[np.float64]:
    """Return the weight (C, m) with zeros where weight * mean is at or below its percentile.

    >>> sparsify(np.array([[1.0, 2.0], [3.0, 4.0]]), np.ones(2), 50)
    array([[0., 0.],
           [3., 4.]])
    """
    weight = weight.astype(np.float64)
    contributions = weight * mean
    return np.where(contributions > np.percentile(contributions, percentile), weight, 0.0)


@storable("dice")
class DICE(LearnsMoments, NewWidth):
    """From features to logits by a sparse head.

    >>> dice = DICE(Head(np.array([[1.0, 2.0], [3.0, 4.0]])), percentile=50).fit(np.ones((3, 2)))
    >>> dice.transform(np.array([[1.0, 10.0]]))
    array([[ 0., 43.]])
    """

    tags = Tags(
        needs_head=True,
        gives="logits",
        mergeable=True,
        fit_cost="O(N m)",
        score_cost="O(m C)",
        memory="O(m C)",
        reference="Sun & Li 2022, ECCV",
    )
    params = {"head": HEAD, "percentile": percentile()}
    _weight: NDArray[np.float64]
    _bias: NDArray[np.floating]

    def __init__(self, head: Head | None = None, percentile: float = 90) -> None:
        self.head = head
        self.percentile = percentile

    def _derive(self) -> None:
        if self.head is not None:
            self._weight = sparsify(self.head.weight, self.moments_.means[0], self.percentile)
            self._bias = self.head.bias

    @property
    def _n_features_out(self) -> int:
        return 0 if self.head is None else len(self.head.classes)

    def _width(self) -> int:
        return self._n_features_out

    def _rectify(self, Z: Array) -> Array:
        return Z @ like(self._weight, Z).T + like(self._bias, Z)
