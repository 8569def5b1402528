"""pNML: the regret of a learner that may fit the last layer to the row and to any label of it.

    score(z) = -log sum_k p_k / (p_k + (1 - p_k) p_k^r)
    r = q / (1 + q),   q = uᵀ (Xᵀ X)⁺ u,   u = z / |z|

with p the softmax of the logits of u, and the rows of X the training features, of length 1 too. The
sum is what the probabilities of all labels add up to if each is learnt in turn: 1 where the learner
has no choice, more where training leaves it one.

Bibas, Feder, Hassner: Single Layer Predictive Normalized Maximum Likelihood for Out-of-Distribution
Detection, NeurIPS 2021. Higher = more typical: the paper's regret, negated. Directions in which no
training feature lies do not count, as there. Fit: one pass, and an eigendecomposition; the moments
stream and merge. Score: one product with the head, one with an (m, m) matrix.
"""

from __future__ import annotations

from typica.arrays import Array, Labels, Rows, as_floating, check_rows, like, namespace
from typica.detectors._bases.headed import MomentsDetector
from typica.detectors._bases.rows import in_blocks
from typica.errors import InputError
from typica.head import HEAD, Head
from typica.linalg import Floats, log_softmax, polar, shrunk_factor, unit_length, unit_rows
from typica.store import storable
from typica.tags import Tags


def regret(L: Array, q: Array) -> Array:
    """Return log sum_k p_k / (p_k + (1 - p_k) p_k^r), p = softmax(L), r = q / (1 + q).

    L: logits (n, C); q (n,): how little the training rows say about the row, 0 or more.

    >>> import numpy as np
    >>> regret(np.log(np.array([[0.75, 0.25]] * 2)), np.array([0.0, 1e9])).round(4)
    array([-0.    ,  0.3159])
    """
    xp = namespace(L)
    logs = log_softmax(L)
    # Each term divided by p^r above and below, so that small p make 0 / 1 and not 0 / 0.
    raised = xp.exp(logs / (1 + q)[:, None])
    return xp.log(xp.sum(raised / (raised - xp.expm1(logs)), axis=1))


@storable("pnml")
class PNML(MomentsDetector):
    """Predictive normalized maximum likelihood of the last layer.

    A zero row has no direction and counts as u = 0.

    >>> import numpy as np
    >>> train = np.array([[4.0, 0.1], [4.0, -0.1]] * 10)
    >>> detector = PNML(Head(4 * np.eye(2))).fit(train)
    >>> detector.score_samples(np.array([[1.0, 0.0], [0.0, 1.0]])).round(2)
    array([-0.  , -0.39])
    """

    tags = Tags(
        needs_head=True,
        mergeable=True,
        tolerance=(1e-5, 1e-10),
        fit_cost="O(N m² + m³)",
        score_cost="O(m² + m C)",
        memory="O(m² + m C)",
        reference="Bibas, Feder & Hassner 2021, NeurIPS",
    )
    params = {"head": HEAD}
    _scatter = True
    _factor: Floats

    def __init__(self, head: Head | None = None) -> None:
        self.head = head

    def _learn(self, Z: Rows, labels: Labels | None) -> None:
        check_rows(Z)
        Z = as_floating(Z)
        super()._learn(in_blocks(unit_length, Z, Z.dtype), None)

    def _derive(self) -> None:
        moments = self.moments_
        products = moments.scatter_about(0 * moments.mean)
        if not products.any():
            raise InputError(f"all {moments.n} training rows are zero; check the layer.")
        self._factor = shrunk_factor(products, moments.n, 0.0) / moments.n**0.5

    def _score(self, Z: Array) -> Array:
        U = unit_rows(Z)
        return self._score_with_logits(U, self._head.logits(U))

    def _score_with_logits(self, Z: Array, L: Array) -> Array:
        """Score one block of unit rows, given their logits."""
        coordinates = Z @ self._like("_factor", Z)
        return -regret(L, namespace(Z).vecdot(coordinates, coordinates))

    def _score_and_similarities(self, Z: Array) -> tuple[Array, Array]:
        lengths, U = polar(Z)
        products = U @ like(self._head.weight, U).T
        bias = like(self._head.bias, U)
        return self._score_with_logits(U, products + bias), products * lengths[:, None] + bias

    def _score_width(self) -> int:
        return max(super()._score_width(), len(self._factor))
