"""The influence kernel behind CTM: the cosine of gradients at a feature and at its class mean.

    score(z) = <p' - u, p - u> / (|p' - u| |p - u|) cos(mu_k, z),   k = argmax p

with p = softmax(W z + b), p' = softmax(W mu_k + b), u = 1/C. The gradient of KL(u || p) with
respect to W is the outer product of p - u and z (the paper has the opposite sign, which leaves the
cosine as it is), so that the cosine of two gradients is that of the p - u times that of the
features. With a one-hot p' it becomes

    (p_k - 1/C) / sqrt((1 - 1/C) (|p|² - 1/C)) cos(mu_k, z)

Nguyen, Nguyen, Ta, Nguyen-Tang, Doan, Thanh-Tung: A Cosine Similarity-based Method for
Out-of-Distribution Detection, 2023, which prints the second form without the root; a cosine needs
it. |p|² - 1/C is computed as sum (p - 1/C)². Higher = more typical; between -1 and 1. Fit: one
pass. Score: one product with the head.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from typica.arrays import Array, Labels, Rows, namespace
from typica.checks import truth
from typica.detectors._bases.headed import MomentsDetector, check_classes
from typica.detectors._bases.means import mean_directions
from typica.head import HEAD, Head, check_known
from typica.linalg import softmax_surplus, unit_rows
from typica.store import storable
from typica.tags import Tags


@storable("influence_kernel")
class InfluenceKernel(MomentsDetector):
    """Influence of the typical feature of the predicted class on the input.

    exact: True takes p' from the head, False assumes that it is one-hot. Where a gradient is zero
    (a zero feature, a uniform p, a head of one class) nothing has influence on it, and the score is
    0.

    >>> train, labels = np.array([[2.0, 0.0], [0.0, 4.0]] * 10), [0, 1] * 10
    >>> detector = InfluenceKernel(Head(np.eye(2))).fit(train, labels)
    >>> detector.score_samples(np.array([[4.0, 3.0], [1.0, 1.0], [0.0, 0.0]]))
    array([0.8, 0. , 0. ])
    """

    tags = Tags(
        needs_head=True,
        needs_labels=True,
        uses_labels=True,
        mergeable=True,
        fit_cost="O(N m)",
        score_cost="O(m C)",
        memory="O(m C + C^2)",
        reference="Nguyen et al. 2023, "
        "A Cosine Similarity-based Method for Out-of-Distribution Detection",
    )
    params = {"head": HEAD, "exact": truth()}
    _directions: NDArray[np.float64]
    _profiles: NDArray[np.float64]

    def __init__(self, head: Head | None = None, exact: bool = True) -> None:
        self.head = head
        self.exact = exact

    def _learn(self, Z: Rows, labels: Labels | None) -> None:
        check_known(labels, self._head)
        super()._learn(Z, labels)

    def _derive(self) -> None:
        order = check_classes(self.moments_, self._head)
        self._directions = mean_directions(self.moments_)[order]
        if self.exact:
            certain = softmax_surplus(self._head.logits(self.moments_.means[order]))
        else:
            certain = np.eye(len(order)) - 1 / len(order)
        self._profiles = unit_rows(certain)

    def _score_with_logits(self, Z: Array, L: Array) -> Array:
        xp = namespace(Z)
        predicted = xp.argmax(L, axis=1)
        profile = unit_rows(softmax_surplus(L))
        direction = unit_rows(Z)
        alike = xp.vecdot(profile, xp.take(self._like("_profiles", Z), predicted, axis=0))
        return alike * xp.vecdot(
            direction, xp.take(self._like("_directions", Z), predicted, axis=0)
        )
