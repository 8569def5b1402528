"""MaxLogit, the largest logit.

    score(z) = max_k l_k,   l = logits of z

Hendrycks, Basart, Mazeika, Zou, Kwon, Mostajabi, Steinhardt, Song: Scaling Out-of-Distribution
Detection for Real-World Settings, ICML 2022. Higher = more typical; the paper prints its negative.
Unlike a probability it does not fall when several classes share an image. Score: one product with
the head.
"""

from __future__ import annotations

from typica.arrays import Array, namespace
from typica.detectors._bases.logit import LogitDetector
from typica.head import HEAD, Head
from typica.store import storable
from typica.tags import Tags


def max_logit(L: Array) -> Array:
    """Return max_k L_k for each row of the logits L (n, C).

    >>> import numpy as np
    >>> max_logit(np.array([[0.5, 3.0], [-2.0, -1.0]]))
    array([ 3., -1.])
    """
    return namespace(L).max(L, axis=1)


@storable("max_logit")
class MaxLogit(LogitDetector):
    """Largest logit; ready without `fit`.

    >>> import numpy as np
    >>> MaxLogit().score_samples(np.array([[0.5, 3.0], [-2.0, -1.0]]))
    array([ 3., -1.])
    """

    tags = Tags(
        reads="logits",
        needs_fit=False,
        fit_cost="none",
        score_cost="O(m C)",
        memory="O(m C), the head",
        reference="Hendrycks et al. 2022, ICML",
    )
    params = {"head": HEAD}

    def __init__(self, head: Head | None = None) -> None:
        self.head = head

    def _score_logits(self, L: Array) -> Array:
        return max_logit(L)
