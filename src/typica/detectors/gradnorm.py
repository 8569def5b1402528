"""GradNorm: the L1 norm of the gradient of KL(uniform || softmax) by the head's weight.

    score(z) = |z|_1 |p - 1/C|_1 / T,   p = softmax(l / T), l = logits of z

The gradient is the outer product of p - 1/C and z over T, so that its norm needs no backward pass.
Huang, Geng, Li: On the Importance of Gradients for Detecting Distributional Shifts in the Wild,
NeurIPS 2021. Higher = more typical, as printed (the authors' code leaves out the 1/C of the uniform
distribution, so that its scores are C times these). T = 1 is the paper's choice. Score: one product
with the head.
"""

from __future__ import annotations

from typica.arrays import Array, namespace
from typica.detectors._bases.headed import HeadedDetector
from typica.detectors._bases.logit import Tempered
from typica.linalg import softmax_surplus
from typica.store import storable
from typica.tags import Tags


@storable("gradnorm")
class GradNorm(Tempered, HeadedDetector):
    """Norm of the gradient towards the uniform distribution; ready without `fit`.

    With a single class there is nothing to be uncertain about, and every score is 0.

    >>> import numpy as np
    >>> from typica import Head
    >>> GradNorm(Head(np.eye(2))).score_samples(np.array([[0.0, np.log(3.0)], [1.0, 1.0]])).round(4)
    array([0.5493, 0.    ])
    """

    tags = Tags(
        needs_head=True,
        needs_fit=False,
        fit_cost="none",
        score_cost="O(m C)",
        memory="O(m C), the head",
        reference="Huang, Geng & Li 2021, NeurIPS",
    )

    def _score_with_logits(self, Z: Array, L: Array) -> Array:
        xp = namespace(Z)
        T = float(self.temperature)
        uncertain = xp.sum(xp.abs(softmax_surplus(L / T)), axis=1)
        return xp.sum(xp.abs(Z), axis=1) * uncertain / T
