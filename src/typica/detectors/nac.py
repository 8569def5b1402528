"""NAC, neuron activation coverage: how often training rows put each feature in the state it is in.

    score(z) = mean_j min(O_j[b(s_j)] / O, 1)
    s_j = sigmoid(alpha z_j g_j),   g = d KL(u || p) / dz = Wᵀ (p - 1/C)

with p the softmax of the logits of z, u uniform, W the head's weight, b(s) the one of M bins
between 0 and 1 in which s lies, and O_j[b] how many training rows put feature j in bin b. A state
counts as covered from O training rows on.

Liu, Tian, Li, Ma, Wang: Neuron Activation Coverage: Rethinking Out-of-distribution Detection and
Generalization, ICLR 2024 (NAC-UE), here on the last layer, where the gradient has the closed form
above; `typica.nets.LayerNAC` has it over several layers, as the paper does. The paper tunes alpha,
M and O for each layer on out-of-distribution images, which is not done here; O is a hundredth of
the training rows, if it is not given. Higher = more typical, as printed. Counts add up: it streams
and merges exactly. Fit: one pass, with two products with the head. Score: the same, and one look-up
per feature.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from typica.arrays import (
    Array,
    Labels,
    Rows,
    as_floating,
    check_finite,
    like,
    namespace,
    row_blocks,
)
from typica.checks import count, optional, positive
from typica.detectors._bases.headed import HeadedDetector
from typica.head import HEAD, Head
from typica.linalg import softmax_surplus
from typica.store import storable
from typica.tags import Tags


def states(Z: Array, L: Array, head: Head, alpha: float) -> Array:
    """Return sigmoid(alpha z_j g_j) (n, m), g the gradient of KL(uniform || softmax of logits L).

    >>> Z, head = np.array([[1.0, 0.0]]), Head(np.eye(2))
    >>> states(Z, head.logits(Z), head, alpha=1.0).round(3)
    array([[0.558, 0.5  ]])
    """
    gradients = softmax_surplus(L) @ like(head.weight, Z)
    return squashed(Z * gradients, alpha)


def squashed(products: Array, alpha: float) -> Array:
    """Return sigmoid(alpha x), without overflow.

    >>> squashed(np.array([0.0, 1e9]), alpha=1.0)
    array([0.5, 1. ])
    """
    return (1 + namespace(products).tanh(products * (float(alpha) / 2))) / 2


def places(S: Array, bins: int) -> Array:
    """Return where states S (n, m) are counted in a flat table of m times `bins` bins, (n, m).

    >>> places(np.array([[0.0, 0.5], [1.0, 0.2]]), bins=4)
    array([[0, 6],
           [3, 4]])
    """
    xp = namespace(S)
    numbers = xp.floor(S * bins)
    last = xp.full_like(numbers, bins - 1.0)
    numbers = xp.where(numbers < last, numbers, last)  # a state of 1 is in the last bin, NaN too
    whole = xp.astype(numbers, xp.int64)  # first, because float32 does not hold all places
    return whole + like(bins * np.arange(int(S.shape[1])), whole)


@storable("nac")
class NAC(HeadedDetector):
    """Neuron activation coverage of the last layer.

    Parameters
    ----------
    head
        The classifier's last layer.
    alpha
        Steepness of the states, which must suit the scale of the features: if all states fall in
        one bin, the score says nothing.
    bins
        M in the formula.
    enough
        O in the formula: how many training rows make a state covered. None takes a hundredth of
        them: a fixed number covers every state if there are rows enough.

    >>> train = np.array([[4.0, 0.0], [0.0, 4.0]] * 50)
    >>> detector = NAC(Head(np.eye(2))).fit(train)
    >>> detector.score_samples(np.array([[4.0, 0.0], [0.0, 0.1]]))
    array([1. , 0.5])
    """

    tags = Tags(
        needs_head=True,
        mergeable=True,
        differentiable=False,
        tolerance=(2e-2, 1e-10),
        fit_cost="O(N m C)",
        score_cost="O(m C)",
        memory="O(m (C + M))",
        reference="Liu et al. 2024, ICLR",
    )
    params = {"head": HEAD, "alpha": positive(), "bins": count(2), "enough": optional(count())}
    learnt_by = ("head", "alpha", "bins")
    counts_: NDArray[np.int64]
    _covered: NDArray[np.float64]

    def __init__(
        self,
        head: Head | None = None,
        alpha: float = 100.0,
        bins: int = 50,
        enough: int | None = None,
    ) -> None:
        self.head = head
        self.alpha = alpha
        self.bins = bins
        self.enough = enough

    def _learn(self, Z: Rows, labels: Labels | None) -> None:
        m = Z.shape[1]
        total = np.zeros(m * self.bins, np.int64)
        for block in row_blocks(len(Z), max(m, self._score_width()), itemsize=8):
            rows = as_floating(Z[block])
            check_finite(rows, block.start)
            S = states(rows, self._head.logits(rows), self._head, self.alpha)
            found = places(S, self.bins)
            total += np.bincount(found.ravel(), minlength=m * self.bins)
        self._add(total.reshape(m, self.bins))

    def _absorb(self, other: Self) -> None:
        self._add(other.counts_)

    def _add(self, counts: NDArray[np.int64]) -> None:
        self.counts_ = counts + getattr(self, "counts_", 0)

    def _derive(self) -> None:
        # Whole numbers, whose sum is exact in any order: equal rows tie in every backend.
        self._covered = np.minimum(self.counts_, self._enough()).ravel().astype(np.float64)

    def _enough(self) -> int:
        """Return how many rows make a state covered; each row is in one bin of every feature."""
        return int(self.enough or max(1, int(self.counts_[0].sum()) // 100))

    def _score_with_logits(self, Z: Array, L: Array) -> Array:
        xp = namespace(Z)
        S = states(Z, L, self._head, self.alpha)
        flat = xp.reshape(places(S, self.bins), (-1,))
        m = self._head.n_features
        covered = xp.reshape(xp.take(self._like("_covered", Z), flat, axis=0), (-1, m))
        scores = xp.sum(covered, axis=1) / float(m * self._enough())
        # Logits that overflow leave no state to look up, and no score.
        return xp.where(xp.isnan(xp.sum(S, axis=1)), xp.full_like(scores, xp.nan), scores)

    def _score_width(self) -> int:
        return max(self._head.n_features, super()._score_width())
