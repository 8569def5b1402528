"""VRA-P: low activations are set to zero and high ones cut, at percentiles of each feature.

    rectified(z)_j = 0 if z_j < a_j,   z_j if a_j <= z_j <= b_j,   b_j if z_j > b_j
    a_j, b_j = percentiles of the training activations of feature j

Xu, Lian, Liu, Tao: VRA: Variational Rectified Activation for Out-of-distribution Detection, NeurIPS
2023. The defaults, 60 and 90, are its authors' for CIFAR-10; for CIFAR-100 they take 60 and 95. The
percentiles are exact for up to 2^25 activations; of more data, as many rows as hold that many are
drawn, always the same ones. Fit: one selection per feature. Transform: two comparisons.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from typica.arrays import Array, Labels, Rows, like, namespace
from typica.checks import percentile
from typica.errors import InputError
from typica.rectify._percentiles import percentiles
from typica.rectify.base import SameWidth
from typica.store import storable
from typica.tags import Tags


def suppress(Z: Array, low: Array, high: Array) -> Array:
    """Return Z (n, m) with zeros below `low` (m,) and cut at `high` (m,), both in the backend of Z.

    >>> suppress(np.array([[0.5, 2.0, 9.0]]), np.ones(3), np.full(3, 3.0))
    array([[0., 2., 3.]])
    """
    xp = namespace(Z)
    return xp.where(low > Z, xp.zeros_like(Z), xp.minimum(Z, high))


@storable("vra")
class VRA(SameWidth):
    """Variational rectified activation: zero below the percentile `low`, cut at `high`.

    >>> train = np.arange(101.0).reshape(-1, 1)
    >>> VRA(low=60, high=90).fit(train).transform(np.array([[50.0], [70.0], [95.0]])).tolist()
    [[0.0], [70.0], [90.0]]
    """

    tags = Tags(
        fit_cost="O(N m)",
        score_cost="O(m)",
        memory="O(m)",
        reference="Xu, Lian, Liu & Tao 2023, NeurIPS",
    )
    params = {"low": percentile(), "high": percentile()}
    low_: NDArray[np.float64]
    high_: NDArray[np.float64]

    def __init__(self, low: float = 60, high: float = 90) -> None:
        self.low = low
        self.high = high

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.low > self.high:
            raise InputError(f"low={self.low} is above high={self.high}; pass low<=high.")

    def _learn(self, Z: Rows, labels: Labels | None) -> None:
        self.low_, self.high_ = percentiles(Z, [self.low, self.high], axis=0)

    def _rectify(self, Z: Array) -> Array:
        return suppress(Z, like(self.low_, Z), like(self.high_, Z))
