"""SHE, Simplified Hopfield Energy: the inner product with the mean feature of the predicted class.

    score(z) = z·mu_k,   k = the class that the head predicts for z
    mu_k = mean of the training features of class k that the head classifies correctly

Zhang, Fu, Chen, Du, Li, Wang, Liu, Han, Zhang: Out-of-Distribution Detection based on
In-Distribution Data Patterns Memorization with Modern Hopfield Energy, ICLR 2023. Higher = more
typical, as printed. metric="cosine" is the ablation with the lengths divided out. Fit: one pass.
Score: one product with the head.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from typica.arrays import Array, Labels, Rows, namespace
from typica.checks import choice
from typica.cosines import paired_cosines
from typica.detectors._bases.headed import MomentsDetector, check_classes, correctly_classified
from typica.detectors._bases.means import mean_directions
from typica.head import HEAD, Head, check_known
from typica.store import storable
from typica.tags import Tags


@storable("she")
class SHE(MomentsDetector):
    """Simplified Hopfield Energy.

    metric: "inner" (the paper's), or "cosine", where a zero row, which has no direction, scores -1.

    >>> train, labels = np.array([[2.0, 0.0], [0.0, 4.0]] * 10), [0, 1] * 10
    >>> SHE(Head(np.eye(2))).fit(train, labels).score_samples(np.array([[3.0, 1.0], [1.0, 3.0]]))
    array([ 6., 12.])
    """

    tags = Tags(
        needs_head=True,
        needs_labels=True,
        uses_labels=True,
        mergeable=True,
        fit_cost="O(N m C)",
        score_cost="O(m C)",
        memory="O(m C)",
        reference="Zhang et al. 2023, ICLR",
    )
    params = {
        "head": HEAD,
        "metric": choice("inner", "cosine", advice='pass "inner" or "cosine"'),
    }
    learnt_by = ("head",)
    _patterns: NDArray[np.float64]

    def __init__(self, head: Head | None = None, metric: str = "inner") -> None:
        self.head = head
        self.metric = metric

    def _learn(self, Z: Rows, labels: Labels | None) -> None:
        labels = np.asarray(labels)
        check_known(labels, self._head)
        correct = correctly_classified(Z, labels, self._head)
        super()._learn(Z[correct], labels[correct])

    def _derive(self) -> None:
        order = check_classes(self.moments_, self._head, "correctly classified samples")
        patterns = self.moments_.means if self.metric == "inner" else mean_directions(self.moments_)
        self._patterns = patterns[order]

    def _score_with_logits(self, Z: Array, L: Array) -> Array:
        xp = namespace(Z)
        patterns = xp.take(self._like("_patterns", Z), xp.argmax(L, axis=1), axis=0)
        if self.metric == "inner":
            return xp.vecdot(Z, patterns)
        return paired_cosines(Z, patterns)
