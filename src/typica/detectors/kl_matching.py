"""KLMatching: the smallest divergence of the softmax from a class's typical softmax.

    score(z) = - min_k KL(p || d_k),   p = softmax(l), l = logits of z
    d_k = mean softmax of the training rows that are predicted to be of class k

Hendrycks, Basart, Mazeika, Zou, Kwon, Mostajabi, Steinhardt, Song: Scaling Out-of-Distribution
Detection for Real-World Settings, ICML 2022. Higher = more typical; the paper prints its negative.
No labels are used. Fit on held-out rows as in the paper where there are some: on its training set a
network is surer of itself than elsewhere. A class that is never predicted has no d_k and is left
out. Fit: one pass. Score: one product with the head and one with the templates.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from typica.arrays import Array, Labels, Rows, namespace
from typica.detectors._bases.logit import LogitDetector
from typica.errors import InputError
from typica.head import HEAD, Head
from typica.linalg import log_softmax, softmax
from typica.store import storable
from typica.sums import class_sums
from typica.tags import Tags

# A probability that is 0 in float64 was below 5e-324 in every row. It counts as the smallest normal
# float64, so that KL stays finite (at most 708) and nothing that float64 can hold is changed.
FLOOR = float(np.finfo(np.float64).tiny)


def kl_divergences(log_p: Array, log_templates: Array) -> Array:
    """Return for KL matching KL(p || d_k) (n, K) from the logarithms of p (n, C) and d (K, C).

    >>> kl_divergences(np.log([[0.5, 0.5]]), np.log([[0.5, 0.5], [0.2, 0.8]])).round(4)
    array([[0.    , 0.2231]])
    """
    xp = namespace(log_p)
    p = xp.exp(log_p)
    return xp.sum(p * log_p, axis=1)[:, None] - p @ log_templates.T


def negative_least_kl(L: Array, log_templates: Array) -> Array:
    """Return - min_k KL(softmax(L) || d_k) for each row of the logits L (n, C).

    log_templates: log d (K, C), in the backend and dtype of L.

    >>> negative_least_kl(np.zeros((1, 2)), np.log([[0.5, 0.5], [0.2, 0.8]]))
    array([0.])
    """
    xp = namespace(L)
    log_p = log_softmax(L)
    nearest = xp.argmin(kl_divergences(log_p, log_templates), axis=1)
    # Summed again term by term: the divergences above are differences of two larger numbers.
    return xp.sum(xp.exp(log_p) * (xp.take(log_templates, nearest, axis=0) - log_p), axis=1)


@storable("kl_matching")
class KLMatching(LogitDetector):
    """Divergence from the nearest class's typical softmax.

    >>> detector = KLMatching().fit(np.log([[0.9, 0.1], [0.7, 0.3], [0.2, 0.8]] * 10))
    >>> detector.templates_
    array([[0.8, 0.2],
           [0.2, 0.8]])
    >>> detector.score_samples(np.log([[0.5, 0.5], [0.9, 0.1]])).round(4)
    array([-0.2231, -0.0367])
    """

    tags = Tags(
        reads="logits",
        mergeable=True,
        # It is small where the network is sure, and the head's rounding is not.
        tolerance=(3e-5, 1e-12),
        fit_cost="O(N m C)",
        score_cost="O(m C + C^2)",
        memory="O(m C + C^2)",
        reference="Hendrycks et al. 2022, ICML",
    )
    params = {"head": HEAD}
    learnt_by = ("head",)
    _log_templates: NDArray[np.float64]
    counts_: NDArray[np.int64]
    sums_: NDArray[np.float64]

    def __init__(self, head: Head | None = None) -> None:
        self.head = head

    def _learn(self, Z: Rows, labels: Labels | None) -> None:
        C = Z.shape[1] if self.head is None else len(self.head.classes)
        counts, sums = np.zeros(C, dtype=np.int64), np.zeros((C, C))
        for _, L in self._logit_blocks(Z):
            predicted = np.argmax(L, axis=1)
            counts += np.bincount(predicted, minlength=C)
            sums += class_sums(softmax(L), predicted, C)
        self._add(counts, sums)

    def _absorb(self, other: KLMatching) -> None:
        self._add(other.counts_, other.sums_)

    def _add(self, counts: NDArray[np.int64], sums: NDArray[np.float64]) -> None:
        self.counts_ = getattr(self, "counts_", 0) + counts
        self.sums_ = getattr(self, "sums_", 0.0) + sums

    def _derive(self) -> None:
        if not self.counts_.any():
            raise InputError(
                "no class has a template; fit on rows of the training or validation set."
            )
        self._log_templates = np.log(np.maximum(self.templates_, FLOOR))

    @property
    def templates_(self) -> NDArray[np.float64]:
        """The mean softmax (K, C) of each class that was predicted, in the order of `classes_`."""
        seen = self.counts_ > 0
        means: NDArray[np.float64] = self.sums_[seen] / self.counts_[seen, None]
        return means

    @property
    def classes_(self) -> Labels:
        """The classes that have a template."""
        classes: Labels = super().classes_[self.counts_ > 0]
        return classes

    def _score_logits(self, L: Array) -> Array:
        return negative_least_kl(L, self._like("_log_templates", L))

    def _match_logits(self, L: Array) -> Array:
        log_p = log_softmax(L)
        return -kl_divergences(log_p, self._like("_log_templates", log_p))
