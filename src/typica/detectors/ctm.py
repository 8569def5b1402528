"""CTM, Class Typical Matching: the largest cosine to a class-mean feature.

    score(z) = max_k cos(mu_k, z),   mu_k = mean of the raw training features of class k

Nguyen, Nguyen, Ta, Nguyen-Tang, Doan, Thanh-Tung: A Cosine Similarity-based Method for
Out-of-Distribution Detection, 2023. Higher = more typical, as printed. Fit: one pass over the
features. Score: one product with the (m, C) matrix of class means, a few thousand at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from typica.arrays import AnyArray, Labels, Rows, as_floating
from typica.checks import truth
from typica.cosines import paired_cosines
from typica.detectors._bases.cosine import CosineDetector
from typica.detectors._bases.headed import check_classes, correctly_classified
from typica.detectors._bases.means import LearnsClassMeans, mean_directions
from typica.errors import InputError
from typica.head import HEAD, Head, head_to_pass
from typica.labels import encode_labels
from typica.store import storable
from typica.tags import Tags


@storable("ctm")
class CTM(LearnsClassMeans, CosineDetector):
    """Class Typical Matching.

    Without labels all rows count as one class, and the score is the cosine to their common mean.

    Parameters
    ----------
    head
        The classifier's last layer; only needed for `correct_only`. If given, every class of the
        head must occur in the training data.
    correct_only
        Average only the training rows that the head classifies correctly.

    >>> import numpy as np
    >>> train = np.array([[2.0, 0.1], [0.1, 3.0]] * 10)
    >>> detector = CTM().fit(train, ["right", "up"] * 10)
    >>> detector.score_samples(np.array([[5.0, 0.0], [-1.0, -1.0]])).round(3)
    array([ 0.999, -0.73 ])
    >>> detector.classify(np.array([[5.0, 0.0]]))
    array(['right'], dtype='<U5')
    """

    tags = Tags(
        uses_labels=True,
        mergeable=True,
        fit_cost="O(N m)",
        score_cost="O(m C)",
        memory="O(m C)",
        reference="Nguyen et al. 2023, "
        "A Cosine Similarity-based Method for Out-of-Distribution Detection",
    )
    params = {"head": HEAD, "correct_only": truth()}

    def __init__(self, head: Head | None = None, correct_only: bool = False) -> None:
        self.head = head
        self.correct_only = correct_only

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.correct_only and self.head is None:
            raise InputError(
                f"correct_only needs a head to tell what is correct; pass {head_to_pass()}."
            )

    def _learning_parameters(self) -> dict[str, Any]:
        head = self.head if self.correct_only else None  # else it says only what classes there are
        return {"correct_only": self.correct_only, "head": head}

    def _wants_head(self) -> bool:
        return self.correct_only or super()._wants_head()

    def _learn(self, Z: Rows, labels: Labels | None) -> None:
        if self.correct_only:
            Z, labels = self._correct(Z, labels)
        super()._learn(Z, labels)

    def _correct(self, Z: Rows, labels: Labels | None) -> tuple[Rows, Labels]:
        if labels is None or self.head is None:
            raise InputError("correct_only needs labels to tell what is correct; pass y.")
        correct = correctly_classified(Z, labels, self.head)
        return Z[correct], labels[correct]

    def _scores_at_least(self, Z: AnyArray, labels: Labels) -> AnyArray | None:
        """Return the cosine of each row to the mean of its own class."""
        names, codes = encode_labels(labels, len(Z))
        if not np.isin(names, self.classes_).all():  # some classes have no correct row
            return None
        own = np.searchsorted(self.classes_, names)[codes]
        rows = as_floating(Z)
        return np.asarray(paired_cosines(rows, self._like("_directions", rows)[own]))

    def _derive(self) -> None:
        if self.head is not None:
            which = "correctly classified samples" if self.correct_only else "samples"
            check_classes(self.moments_, self.head, which)
        self._directions = mean_directions(self.moments_)
