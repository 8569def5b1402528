"""GEN, the generalized entropy of the largest softmax probabilities.

    score(z) = - sum_(k among the M largest p) p_k^gamma (1 - p_k)^gamma
    p = softmax(l), l = logits of z

Liu, Lochman, Zach: GEN: Pushing the Limits of Softmax-Based Out-of-Distribution Detection, CVPR
2023. Higher = more typical, as printed: 0 where one class has it all. gamma = 0.1 and M = 100 are
the paper's; where there are fewer classes all of them count. Score: one product with the head and a
sort.

A small gamma lives on probabilities far below what 1 - p can resolve, so the terms are formed from
logarithms: (1 - p)^gamma of the largest p is 0.06 where p = 1 - 1e-12, and 0 if it is computed as
written in float32.
"""

from __future__ import annotations

from typica.arrays import Array, namespace
from typica.checks import count, number
from typica.detectors._bases.logit import LogitDetector
from typica.head import HEAD, Head
from typica.largest import descending
from typica.store import storable
from typica.tags import Tags


def negative_generalized_entropy(L: Array, gamma: float = 0.1, top_m: int = 100) -> Array:
    """Return - sum p_k^gamma (1 - p_k)^gamma over the top_m largest p = softmax(L), (n,).

    >>> import numpy as np
    >>> negative_generalized_entropy(np.array([[0.0, 0.0], [1e4, 0.0]]), gamma=0.5)
    array([-1., -0.])
    """
    xp = namespace(L)
    L = descending(L)
    if L.shape[1] == 1:
        return L[:, 0] - L[:, 0]  # p = 1, in the graph of L
    # The largest probability is 1 / total and the sum of all others is others / total.
    second = L[:, 1:2]
    weights = xp.exp(L[:, 1:] - second)
    log_others = second - L[:, :1] + xp.log(xp.sum(weights, axis=1, keepdims=True))
    log_total = xp.log1p(xp.exp(log_others))
    log_p = L[:, : min(top_m, L.shape[1])] - L[:, :1] - log_total
    # All but the largest are at most 1/2, where 1 - p is exact enough.
    log_rest = xp.concat([log_others - log_total, xp.log1p(-xp.exp(log_p[:, 1:]))], axis=1)
    return -xp.sum(xp.exp(gamma * (log_p + log_rest)), axis=1)


@storable("gen")
class GEN(LogitDetector):
    """Negative generalized entropy of the `top_m` largest probabilities; ready without `fit`.

    Parameters
    ----------
    head
        The classifier's last layer; None takes logits as input.
    gamma
        Above 0 and at most 1, where the sum is concave and so an entropy.
    top_m
        How many of the largest probabilities count.

    >>> import numpy as np
    >>> GEN(gamma=0.5).score_samples(np.array([[0.0, 0.0], [0.0, np.log(4.0)]]))
    array([-1. , -0.8])
    """

    tags = Tags(
        reads="logits",
        needs_fit=False,
        fit_cost="none",
        score_cost="O(m C + C log C)",
        memory="O(m C), the head",
        reference="Liu, Lochman & Zach 2023, CVPR",
    )
    params = {
        "head": HEAD,
        "gamma": number(
            lambda value: 0 < value <= 1,
            "a number above 0 and at most 1",
            "{name}={value!r} is out of range; pass a number above 0 and at most 1.",
        ),
        "top_m": count(),
    }

    def __init__(self, head: Head | None = None, gamma: float = 0.1, top_m: int = 100) -> None:
        self.head = head
        self.gamma = gamma
        self.top_m = top_m

    def _score_logits(self, L: Array) -> Array:
        return negative_generalized_entropy(L, float(self.gamma), int(self.top_m))
