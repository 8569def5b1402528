"""DOCTOR: the probability that two labels drawn from the softmax agree.

    score(z) = sum_k p_k²,   p = softmax(l / T),   l = logits of z

Granese, Romanelli, Gorla, Palamidessi, Piantanida: DOCTOR: A Simple Method for Detecting
Misclassification Errors, NeurIPS 2021. Higher = more typical. The paper's D_alpha is
(1 - score) / score, which orders rows as the score does, reversed. Score: one product with the
head.
"""

from __future__ import annotations

from typica.arrays import Array, namespace
from typica.detectors._bases.logit import LogitDetector, Tempered
from typica.linalg import softmax
from typica.store import storable
from typica.tags import Tags


def agreement(L: Array, temperature: float = 1.0) -> Array:
    """Return sum_k softmax(L / temperature)_k² for each row of the logits L (n, C).

    >>> import numpy as np
    >>> agreement(np.array([[0.0, np.log(3.0)], [0.0, 0.0]]))
    array([0.625, 0.5  ])
    """
    p = softmax(L / float(temperature))
    return namespace(p).vecdot(p, p)


@storable("doctor")
class DOCTOR(Tempered, LogitDetector):
    """Sum of the squared probabilities, at a temperature; ready without `fit`.

    >>> import numpy as np
    >>> DOCTOR().score_samples(np.array([[0.0, np.log(3.0)], [0.0, 0.0]]))
    array([0.625, 0.5  ])
    """

    tags = Tags(
        reads="logits",
        needs_fit=False,
        fit_cost="none",
        score_cost="O(m C)",
        memory="O(m C), the head",
        reference="Granese et al. 2021, NeurIPS",
    )

    def _score_logits(self, L: Array) -> Array:
        return agreement(L, self.temperature)
