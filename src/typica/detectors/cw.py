"""CW: the largest cosine to a row of the head's weight. Needs no training data.

    score(z) = max_k cos(w_k, z),   w_k = row k of the head's weight; the bias is left out

The ablation of Nguyen, Nguyen, Ta, Nguyen-Tang, Doan, Thanh-Tung: A Cosine Similarity-based Method
for Out-of-Distribution Detection, 2023. Higher = more typical. Score: one product with the (m, C)
weight.
"""

from __future__ import annotations

import numpy as np

from typica.detectors._bases.cosine import CosineDetector
from typica.detectors._bases.headed import ClassesOfHead
from typica.errors import InputError
from typica.head import HEAD, Head
from typica.linalg import unit_rows
from typica.store import storable
from typica.tags import Tags


@storable("cw")
class CW(ClassesOfHead, CosineDetector):
    """Cosine to the weights of the head; ready without `fit`.

    >>> detector = CW(Head(np.eye(2), classes=["right", "up"]))
    >>> detector.score_samples(np.array([[5.0, 0.0], [3.0, 4.0]]))
    array([1. , 0.8])
    """

    tags = Tags(
        needs_head=True,
        needs_fit=False,
        fit_cost="none",
        score_cost="O(m C)",
        memory="O(m C)",
        reference="Nguyen et al. 2023, "
        "A Cosine Similarity-based Method for Out-of-Distribution Detection",
    )
    params = {"head": HEAD}

    def __init__(self, head: Head | None = None) -> None:
        self.head = head

    def _derive(self) -> None:
        if self.head is None:
            return
        zero = ~self.head.weight.any(axis=1)
        if zero.any():
            name = self.head.classes[np.argmax(zero)]
            raise InputError(
                f"the head's weight for class {name!s} is zero and has no direction; "
                "check the checkpoint."
            )
        self._directions = unit_rows(self.head.weight.astype(np.float64))
