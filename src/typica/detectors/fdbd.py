"""fDBD: the mean distance to the decision boundaries of the other classes, over the distance to the training mean.

    score(z) = 1/(C-1) sum_{c != k} |l_k - l_c| / |w_k - w_c|  /  |z - mu|,   k = argmax l, l = logits of z

with w the rows of the head's weight and mu the mean of all training features. Liu, Qin: Fast Decision Boundary based
Out-of-Distribution Detector, ICML 2024. Higher = more typical, as printed (the authors' code sums in place of the
mean: the same order). Fit: one pass. Score: one product with the head.
"""

from __future__ import annotations

import numpy as np

from typica.arrays import Array, like, namespace
from typica.detectors._bank import units
from typica.detectors._headed import MomentsDetector
from typica.detectors.base import Tags
from typica.errors import InputError
from typica.head import Head
from typica.store import storable


@storable("fdbd")
class FDBD(MomentsDetector):
    """Fast decision boundary based detector.

    Between two classes of equal weight there is no boundary: such pairs are left out of the mean. A row that is equal
    to the training mean has no direction from it; it scores 0, the least there is.

    >>> detector = FDBD(Head(np.eye(2))).fit(np.array([[2.0, 0.0], [0.0, 2.0]] * 10))
    >>> detector.score_samples(np.array([[3.0, 1.0], [1.5, 1.5]]))
    array([0.70710678, 0.        ])
    """

    tags = Tags(
        needs_head=True,
        mergeable=True,
        fit_cost="O(N m)",
        score_cost="O(m C)",
        memory="O(m C + C^2)",
        reference="Liu & Qin 2024, ICML",
    )

    def __init__(self, head: Head | None = None) -> None:
        self.head = head

    def _check_parameters(self, where: str) -> None:
        super()._check_parameters(where)
        if not self._nearness.any(axis=1).all():
            raise InputError(
                f"{where}: a class of the head has no decision boundary; pass a head of 2 or more unequal classes."
            )

    def _derive(self, where: str) -> None:
        weight = self._head.weight.astype(np.float64)
