"""LTS, logit scaling: the energy of logits that are scaled by the shape of the activations.

    score(z) = log sum_k exp(r² l_k),   l = logits of z
    r = sum of the positive activations of z / sum of the largest 5 % of them

Djurisic, Liu, Nikolic: Logit Scaling for Out-of-Distribution Detection, Machine Vision and
Applications 2025. Higher = more typical. It is SCALE with r² in place of exp(r), on the logits,
bias included. How many activations are the largest is m - round(m p / 100), at least 1, for the
percentile p. Nothing is learnt. Score: one product with the head and one selection per row.
"""

from __future__ import annotations

from typica.arrays import Array, namespace
from typica.checks import percentile as percentile_parameter
from typica.detectors._bases.headed import HeadedDetector
from typica.head import HEAD, Head
from typica.largest import mean_of_largest
from typica.linalg import logsumexp
from typica.store import storable
from typica.tags import Tags


def concentration(Z: Array, k: int) -> Array:
    """Return LTS's r: a row's positive activations over its k largest, summed; 1 without any.

    >>> import numpy as np
    >>> concentration(np.array([[1.0, 3.0, -2.0, 0.0], [-1.0, 0.0, 0.0, 0.0]]), k=1).round(3)
    array([1.333, 1.   ])
    """
    xp = namespace(Z)
    P = (Z + xp.abs(Z)) / 2  # whose gradient at 0 is the mean of those on either side
    top = k * mean_of_largest(P, k)
    none = top == 0
    one = xp.ones_like(top)
    return xp.where(none, one, xp.sum(P, axis=1)) / xp.where(none, one, top)


@storable("lts")
class LTS(HeadedDetector):
    """Energy of scaled logits; ready without `fit`.

    percentile: above it lie the largest activations. A row without positive activations keeps its
    logits.

    >>> import numpy as np
    >>> detector = LTS(Head(np.eye(2)), percentile=50)
    >>> detector.score_samples(np.array([[4.0, 0.0], [4.0, 4.0]])).round(2)
    array([ 4.02, 16.69])
    """

    tags = Tags(
        needs_head=True,
        needs_fit=False,
        fit_cost="none",
        score_cost="O(m C)",
        memory="O(m C), the head",
        reference="Djurisic, Liu & Nikolic 2025, Machine Vision and Applications",
    )
    params = {"head": HEAD, "percentile": percentile_parameter()}

    def __init__(self, head: Head | None = None, percentile: float = 95) -> None:
        self.head = head
        self.percentile = percentile

    def _score_with_logits(self, Z: Array, L: Array) -> Array:
        m = self._head.n_features
        r = concentration(Z, max(1, m - round(m * self.percentile / 100)))
        return logsumexp(L * (r * r)[:, None])
