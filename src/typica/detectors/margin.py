"""Margin, the lead of the best class over the second best.

    score(z) = p_(1) - p_(2),   the two largest of p = softmax(l)    of="probabilities"
    score(z) = l_(1) - l_(2),   the two largest logits l of z        of="logits"

Scheffer, Decomain, Wrobel: Active Hidden Markov Models for Information Extraction, IDA 2001, which
defines the margin on probabilities (the default). Higher = more typical. The two order inputs alike
where there are two classes. Score: one product with the head and a sort.
"""

from __future__ import annotations

from typica.arrays import Array, namespace
from typica.checks import choice
from typica.detectors._bases.logit import LogitDetector
from typica.errors import InputError
from typica.head import HEAD, Head
from typica.largest import descending
from typica.store import storable
from typica.tags import Tags

KINDS = ("probabilities", "logits")


def probability_margin(L: Array) -> Array:
    """Return the difference of the two largest of softmax(L) for each row of L (n, C); 1 if C = 1.

    >>> import numpy as np
    >>> probability_margin(np.log(np.array([[0.3, 0.1, 0.6], [0.5, 0.4, 0.1]]))).round(4)
    array([0.3, 0.1])
    """
    xp = namespace(L)
    L = descending(L)
    gaps = L - L[:, :1]
    total = xp.sum(xp.exp(gaps), axis=1)
    lead = -xp.expm1(gaps[:, 1]) if L.shape[1] > 1 else xp.exp(gaps[:, 0])
    return lead / total


def logit_margin(L: Array) -> Array:
    """Return the difference of the two largest logits for each row of L (n, C), C > 1.

    >>> import numpy as np
    >>> logit_margin(np.array([[0.0, 4.0, 1.0]]))
    array([3.])
    """
    if L.shape[1] < 2:
        raise InputError(
            "a margin needs two classes, and there is one; pass of='probabilities', where it is 1."
        )
    L = descending(L)
    return L[:, 0] - L[:, 1]


@storable("margin")
class Margin(LogitDetector):
    """Difference of the two largest probabilities, or of="logits"; ready without `fit`.

    >>> import numpy as np
    >>> Margin().score_samples(np.log(np.array([[0.3, 0.1, 0.6], [0.5, 0.4, 0.1]]))).round(4)
    array([0.3, 0.1])
    """

    tags = Tags(
        reads="logits",
        needs_fit=False,
        fit_cost="none",
        score_cost="O(m C + C log C)",
        memory="O(m C), the head",
        reference="Scheffer et al. 2001, IDA",
    )
    params = {"head": HEAD, "of": choice(*KINDS)}

    def __init__(self, head: Head | None = None, of: str = "probabilities") -> None:
        self.head = head
        self.of = of

    def _score_logits(self, L: Array) -> Array:
        if self.of == "logits":
            return logit_margin(L)
        return probability_margin(L)
