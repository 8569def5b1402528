"""NCI: how far a feature points, from the mean, along its class's weight, plus its length.

    score(z) = (z - mu)·w_k / |z - mu| + alpha |z|_1,   k = argmax of the logits of z

with w the rows of the head's weight and mu the mean of all training features. Liu, Qin: Detecting
Out-of-Distribution through the Lens of Neural Collapse, CVPR 2025. Higher = more typical, as
printed. The authors' code sets alpha = 1e-4 and tries 1e-4, 1e-3, 1e-2, 1e-1 on validation data
with outliers. Fit: one pass. Score: one product with the head.
"""

from __future__ import annotations

import numpy as np

from typica.arrays import Array, like, namespace
from typica.checks import number
from typica.detectors._bases.headed import MomentsDetector
from typica.head import HEAD, Head
from typica.linalg import units
from typica.store import storable
from typica.tags import Tags


@storable("nci")
class NCI(MomentsDetector):
    """Neural collapse inspired detector.

    alpha: the weight of the feature's L1 length, 0 or more. A row that is equal to the training
    mean has no direction from it; it counts as pointing away from its class, -|w_k|.

    >>> detector = NCI(Head(np.eye(2)), alpha=0.1).fit(np.array([[2.0, 0.0], [0.0, 2.0]] * 10))
    >>> detector.score_samples(np.array([[4.0, 5.0], [1.0, 1.0]]))
    array([ 1.7, -0.8])
    """

    tags = Tags(
        needs_head=True,
        mergeable=True,
        fit_cost="O(N m)",
        score_cost="O(m C)",
        memory="O(m C)",
        reference="Liu & Qin 2025, CVPR",
    )
    params = {
        "head": HEAD,
        "alpha": number(
            lambda value: 0 <= value < np.inf,
            "a number of at least 0",
            "{name}={value!r} is not a weight; pass {name}>=0.",
        ),
    }

    def __init__(self, head: Head | None = None, alpha: float = 1e-4) -> None:
        self.head = head
        self.alpha = alpha

    def _score_with_logits(self, Z: Array, L: Array) -> Array:
        xp = namespace(Z)
        predicted = xp.argmax(L, axis=1)
        weights = xp.take(like(self._head.weight, Z), predicted, axis=0)
        U, at_mean = units(self._from_mean(Z))
        lengths = xp.sqrt(xp.vecdot(weights, weights))
        along = xp.where(at_mean, -lengths, xp.vecdot(U, weights))
        return along + float(self.alpha) * xp.sum(xp.abs(Z), axis=1)
