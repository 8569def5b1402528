"""NNGuide: the energy, guided by the nearest training features and their energies.

    score(z) = E(z) 1/k sum_{i=1..k} g_(i)
    g_(1) >= g_(2) >= ... the E(b) cos(b, z) of the training features b that are kept

with E(z) = log sum exp of the logits of z. Park, Jung, Teoh: Nearest Neighbor Guidance for
Out-of-Distribution Detection, ICCV 2023. Higher = more typical, as printed. As in the authors'
code, the k nearest are those of the largest products. k = 10 and 1 % of the training data
are the paper's choices for ImageNet. The method takes for granted that energies are positive. Fit:
keeps the sample. Score: one product with the head and one with the sample.
"""

from __future__ import annotations

import numpy as np

from typica.arrays import Array, Rows, as_floating
from typica.checks import count
from typica.detectors._bases.headed import HeadedDetector
from typica.detectors._bases.rows import SUBSAMPLE, RowsDetector, check_k, in_blocks
from typica.head import HEAD, Head
from typica.largest import mean_of_largest
from typica.linalg import logsumexp, unit_rows
from typica.store import storable
from typica.tags import Tags


@storable("nnguide")
class NNGuide(HeadedDetector, RowsDetector):
    """Nearest neighbour guidance of the energy.

    A zero feature has no direction: its cosines count as 0, and so does its score.

    Parameters
    ----------
    head
        The classifier's last layer.
    k
        Over how many of the nearest kept rows the mean is taken.
    subsample
        How many training rows are kept, as a share (float) or a number (int); None keeps all.
    seed
        Chooses them.

    >>> train = np.array([[3.0, 0.0], [0.0, 3.0]] * 10)
    >>> detector = NNGuide(Head(2 * np.eye(2)), k=2, subsample=None).fit(train)
    >>> detector.score_samples(np.array([[4.0, 0.0], [1.0, 1.0]])).round(2)
    array([48.02, 11.43])
    """

    tags = Tags(
        needs_head=True,
        keeps_rows=True,
        mergeable=True,
        fit_cost="O(N m)",
        score_cost="O(m C + m B), B rows kept",
        memory="O(m C + m B)",
        reference="Park, Jung & Teoh 2023, ICCV",
    )
    params = {"head": HEAD, "k": count(), "subsample": SUBSAMPLE, "seed": count(0)}
    _guides: Rows

    def __init__(
        self,
        head: Head | None = None,
        k: int = 10,
        subsample: float | int | None = 0.01,
        seed: int = 0,
    ) -> None:
        self.head = head
        self.k = k
        self.subsample = subsample
        self.seed = seed

    def _derive(self) -> None:
        super()._derive()
        check_k(self.k, len(self.rows_), self.subsample)
        rows = as_floating(self.rows_)
        self._guides = in_blocks(self._guiding, rows, rows.dtype)

    def _guiding(self, Z: Rows) -> Rows:
        """Return the directions of the rows Z, each as long as its energy."""
        directions = unit_rows(Z)
        return np.asarray(directions * logsumexp(self._head.logits(Z))[:, None])

    def _score_with_logits(self, Z: Array, L: Array) -> Array:
        directions = unit_rows(Z)
        guidance = mean_of_largest(directions @ self._like("_guides", Z).T, int(self.k))
        return logsumexp(L) * guidance

    def _score_width(self) -> int:
        return max(len(self._guides), super()._score_width())
