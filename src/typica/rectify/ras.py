"""RAS, ranked activation shift: every activation is replaced by what is usual at its rank.

    rectified(z)_j = r[rank of z_j among the activations of z]
    r[i] = mean of the i-th smallest activation over the training rows

Only the order of a row's activations is left; put Energy behind it. Guglielmo, Masana: Ranked
Activation Shift for Post-Hoc Out-of-Distribution Detection, 2026, has no parameter, and takes
activations of any sign. Equal activations are ranked by their place in the row (in the authors'
code in any order). The gradient is zero: small changes of a row change nothing. Sums of the sorted
rows are kept in float64, and stream and merge. Fit and transform: one sort per row.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from typica.arrays import Array, Labels, Rows, as_floating, check_rows, like, namespace, row_blocks
from typica.rectify.base import SameWidth
from typica.store import storable
from typica.tags import Tags


def ranks(Z: Array) -> Array:
    """Return the ranks that RAS looks up, of each number in its row of Z (n, m); ties by place.

    >>> ranks(np.array([[5.0, 1.0, 5.0]]))
    array([[1, 0, 2]])
    """
    xp = namespace(Z)
    order = xp.argsort(Z, axis=1, stable=True)
    return xp.argsort(order, axis=1, stable=True)


@storable("ras")
class RAS(SameWidth):
    """Put the mean sorted training row, `profile_` (m,), in the order of the row's activations.

    >>> train = np.array([[0.0, 2.0], [6.0, 2.0]])
    >>> RAS().fit(train).transform(np.array([[9.0, 1.0]]))
    array([[4., 1.]])
    """

    tags = Tags(
        mergeable=True,
        fit_cost="O(N m log m)",
        score_cost="O(m log m)",
        memory="O(m)",
        reference="Guglielmo & Masana 2026, "
        "Ranked Activation Shift for Post-Hoc Out-of-Distribution Detection",
    )
    n_: int
    sums_: NDArray[np.float64]
    _profile: NDArray[np.float64]

    def _learn(self, Z: Rows, labels: Labels | None) -> None:
        check_rows(Z)
        sums = np.zeros(Z.shape[1])
        for block in row_blocks(len(Z), Z.shape[1]):
            sums += np.sort(as_floating(Z[block]), axis=1).sum(axis=0, dtype=np.float64)
        self._add(len(Z), sums)

    def _absorb(self, other: Self) -> None:
        self._add(other.n_, other.sums_)

    def _add(self, n: int, sums: NDArray[np.float64]) -> None:
        self.n_ = n + getattr(self, "n_", 0)
        self.sums_ = sums + getattr(self, "sums_", 0.0)

    @property
    def profile_(self) -> NDArray[np.float64]:
        """The mean of the sorted training rows (m,), smallest first."""
        return np.asarray(self.sums_ / self.n_)

    def _derive(self) -> None:
        self._profile = self.profile_

    def _rectify(self, Z: Array) -> Array:
        xp = namespace(Z)
        flat = xp.take(like(self._profile, Z), xp.reshape(ranks(Z), (-1,)), axis=0)
        # With 0 times Z, so that its gradient is 0 and not missing.
        return xp.reshape(flat, (-1, len(self._profile))) + 0 * Z
