"""ViM, virtual-logit matching: the energy of the logits less a virtual logit made of the residual.

    score(z) = logsumexp(l) - alpha |Rᵀ (z - o)|,   l = logits of z
    alpha = sum of max_k l_k / sum of |Rᵀ (z - o)|, both over the training rows

with the residual |Rᵀ (z - o)| as in `Residual`. It is the log odds of the real classes against a
virtual class whose logit is alpha times the residual.

Wang, Li, Feng, Zhang: ViM: Out-Of-Distribution with Virtual-logit Matching, CVPR 2022. Higher =
more typical: as in the authors' code, which orders rows as the paper's probability of the virtual
class does, reversed. Fit: two passes, since alpha needs the residuals of all training rows in the
final subspace; hence no merging. Score: one product with R, one with the head.
"""

from __future__ import annotations

import numpy as np

from typica.arrays import Array, Labels, Rows, as_floating, row_blocks
from typica.detectors._bases.headed import ClassesOfHead
from typica.detectors._bases.scatter import (
    PrincipalDetector,
    nan_as_minus_infinity,
    overflow_as_minus_infinity,
)
from typica.detectors._bases.two_passes import Totals, TwoPasses
from typica.errors import InputError
from typica.largest import row_max
from typica.linalg import logsumexp
from typica.store import storable
from typica.tags import Tags


@storable("vim")
class ViM(ClassesOfHead, PrincipalDetector, TwoPasses):
    """Virtual-logit matching.

    head: the classifier's last layer. dim: of the principal subspace; None: 1000 from 2048 features
    on, 512 from 768 on, else half of them. The training features must vary in more than `dim`
    directions.

    The residual is exact to a share of the row's own length, as in `Residual`: where all features
    lie far from the origin, next to each other, scores lose digits.

    >>> from typica import Head
    >>> head = Head(np.eye(2, 3), classes=["right", "up"])
    >>> right, up = [[4.0, 0.0, 0.1], [4.0, 0.0, -0.1]], [[0.0, 4.0, 0.1], [0.0, 4.0, -0.1]]
    >>> train = np.array((right + up) * 10)
    >>> detector = ViM(head, dim=2).fit(train)
    >>> detector.score_samples(np.array([[4.0, 0.0, 0.0], [4.0, 0.0, 0.3]])).round(1)
    array([ 4., -8.])
    """

    tags = Tags(
        needs_head=True,
        tolerance=(1e-5, 1e-10),
        fit_cost="O(N m² + m³), two passes",
        score_cost="O(m (m - dim) + m C)",
        memory="O(m² + m C)",
        reference="Wang et al. 2022, CVPR",
    )

    learnt_by = ("head", "dim")

    alpha_: float

    def _learn(self, Z: Rows, labels: Labels | None) -> None:
        TwoPasses._learn(self, Z, labels)

    def _look(self, Z: Rows, labels: Labels | None) -> None:
        super()._learn(Z, labels)

    def _settle(self, n: int) -> None:
        self._prepare()

    def _totals(self, Z: Rows) -> Totals:
        self._prepare()
        logits, lengths = 0.0, 0.0
        for block in row_blocks(len(Z), max(Z.shape[1], self._score_width()), itemsize=8):
            rows = as_floating(Z[block])
            logits += float(row_max(self._head.logits(rows)).sum(dtype=np.float64))
            lengths += float(self._residuals.lengths(rows).sum(dtype=np.float64))
        return np.array([logits, lengths])

    def _end(self, totals: Totals, n: int) -> None:
        self._prepare()
        logits, lengths = totals.tolist()
        if logits <= 0:
            mean = logits / n
            raise InputError(
                f"the largest logits of the training features average {mean:.3g}, but alpha needs "
                "them to be positive; check that the head belongs to the features."
            )
        self.alpha_ = logits / lengths / self._residuals.scale

    def _check_rank(self, rank: int, dim: int) -> None:
        if rank > dim:
            return
        other = f", or dim<{rank}" if rank > 1 else " that differ"
        raise InputError(
            f"the features vary in {rank} directions only, which leaves no residual outside "
            f"{dim}; pass more rows{other}."
        )

    def _typicality(self, Z: Array) -> Array:
        return self._less_virtual(self._head.logits(Z), Z)

    def _less_virtual(self, L: Array, Z: Array) -> Array:
        """Return the energy of the logits L of rows Z, less their virtual logit."""
        virtual = self.alpha_ * self._residuals.scale * self._residuals.lengths(Z)
        return logsumexp(L) - virtual

    def _similarities(self, Z: Array) -> Array:
        return overflow_as_minus_infinity(self._head.logits, Z)

    def _score_and_similarities(self, Z: Array) -> tuple[Array, Array]:
        with np.errstate(over="ignore", invalid="ignore"):
            L = self._head.logits(Z)
            scores = self._less_virtual(L, Z)
        return nan_as_minus_infinity(scores), nan_as_minus_infinity(L)

    def _score_width(self) -> int:
        return max(super()._score_width(), len(self.classes_))
