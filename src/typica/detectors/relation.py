"""Relation: how much a row has to do with the training rows, in its feature and in its prediction.

    score(z) = mean_i g(max(0, cos(z, z_i)) <p, p_i>),   g(r) = r^power if r > cut, else 0

over the training rows z_i that are kept, with p and p_i the softmax of the logits of z and z_i.
Kim, Yun, Song: Neural Relation Graph: A Unified Framework for Identifying Label Noise and Outlier
Data, NeurIPS 2023; cut = 0.03 as in the authors' code, power = 1 of their 1, 2, 4, 6, 8. Higher =
more typical, as printed (the paper has the sum in place of the mean: the same order). Fit: keeps
the rows. Score: one product with the head, one with the rows, one with their probabilities.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from typica.arrays import Array, namespace
from typica.checks import count, number, positive
from typica.detectors._bases.headed import HeadedDetector
from typica.detectors._bases.rows import SUBSAMPLE, RowsDetector
from typica.head import HEAD, Head
from typica.linalg import softmax, unit_rows
from typica.store import storable
from typica.tags import Tags


@storable("relation")
class Relation(HeadedDetector, RowsDetector):
    """Mean relation to the training rows, in feature and prediction.

    A zero feature has no direction: its cosines count as 0.

    Parameters
    ----------
    head
        The classifier's last layer.
    power
        Of a relation.
    cut
        Relations up to this one count as 0.
    subsample
        How many training rows are kept, as a share (float) or a number (int); None keeps all.
    seed
        Chooses them.

    >>> train = np.array([[3.0, 0.0], [0.0, 3.0]] * 10)
    >>> detector = Relation(Head(2 * np.eye(2))).fit(train)
    >>> detector.score_samples(np.array([[4.0, 0.0], [1.0, 1.0]])).round(2)
    array([0.5 , 0.35])
    """

    tags = Tags(
        needs_head=True,
        keeps_rows=True,
        mergeable=True,
        fit_cost="O(N m)",
        score_cost="O((m + C) B), B rows kept",
        memory="O((m + C) B)",
        reference="Kim, Yun & Song 2023, NeurIPS",
    )
    params = {
        "head": HEAD,
        "power": positive(),
        "cut": number(
            lambda value: 0 <= value < 1,
            "a number from 0, below 1",
            "{name}={value!r} is not a relation; pass a number from 0, below 1.",
        ),
        "subsample": SUBSAMPLE,
        "seed": count(0),
    }
    _directions: NDArray[np.float64]
    _probabilities: NDArray[np.float64]

    def __init__(
        self,
        head: Head | None = None,
        power: float = 1.0,
        cut: float = 0.03,
        subsample: float | int | None = None,
        seed: int = 0,
    ) -> None:
        self.head = head
        self.power = power
        self.cut = cut
        self.subsample = subsample
        self.seed = seed

    def _derive(self) -> None:
        super()._derive()
        rows = self.rows_.astype(np.float64)
        self._directions = unit_rows(rows)
        self._probabilities = softmax(self._head.logits(rows))

    def _score_with_logits(self, Z: Array, L: Array) -> Array:
        xp = namespace(Z)
        U = unit_rows(Z)
        alike = U @ self._like("_directions", Z).T
        agreeing = softmax(L) @ self._like("_probabilities", Z).T
        relations = alike * agreeing
        counts = relations > self.cut  # a negative cosine is below it too
        # The power of 1 in place of what does not count, so that no NaN enters the gradient.
        powers = xp.where(counts, relations, xp.ones_like(relations)) ** float(self.power)
        return xp.mean(xp.where(counts, powers, xp.zeros_like(powers)), axis=1)

    def _score_width(self) -> int:
        return max(len(self._directions), super()._score_width())
