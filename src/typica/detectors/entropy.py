"""Entropy, the negative Shannon entropy of the softmax.

    score(z) = sum_k p_k log p_k,   p = softmax(l), l = logits of z

Shannon: A Mathematical Theory of Communication, 1948; as a score for OOD inputs in Chan, Rottmann,
Gottschalk: Entropy Maximization and Meta Classification for Out-of-Distribution Detection in
Semantic Segmentation, ICCV 2021. Higher = more typical: 0 where one class has it all, -log C where
all are equal. In nats. Equal to KL(p || uniform) - log C. Score: one product with the head and a
sort.
"""

from __future__ import annotations

from typica.arrays import Array, namespace
from typica.detectors._bases.logit import LogitDetector
from typica.head import HEAD, Head
from typica.largest import descending
from typica.store import storable
from typica.tags import Tags


def negative_entropy(L: Array) -> Array:
    """Return sum_k p_k log p_k, p = softmax(L), for each row of the logits L (n, C).

    >>> import numpy as np
    >>> negative_entropy(np.array([[0.0, 0.0], [1e4, 0.0]])).round(4)
    array([-0.6931,  0.    ])
    """
    xp = namespace(L)
    L = descending(L)
    gaps = L[:, 1:] - L[:, :1]
    weights = xp.exp(gaps)
    # Apart from the largest, so that they count even where 1 + others is 1.
    others = xp.sum(weights, axis=1)
    return xp.sum(weights * gaps, axis=1) / (1 + others) - xp.log1p(others)


@storable("entropy")
class Entropy(LogitDetector):
    """Negative entropy of the softmax; ready without `fit`.

    >>> import numpy as np
    >>> Entropy().score_samples(np.array([[0.0, 0.0], [0.0, np.log(3.0)]])).round(4)
    array([-0.6931, -0.5623])
    """

    tags = Tags(
        reads="logits",
        needs_fit=False,
        # It is small where the network is sure, and the head's rounding is not.
        tolerance=(1e-5, 1e-12),
        fit_cost="none",
        score_cost="O(m C + C log C)",
        memory="O(m C), the head",
        reference="Shannon 1948; Chan et al. 2021, ICCV",
    )
    params = {"head": HEAD}

    def __init__(self, head: Head | None = None) -> None:
        self.head = head

    def _score_logits(self, L: Array) -> Array:
        return negative_entropy(L)
