"""RandomFourier: features whose inner products are nearly a Gaussian kernel of directions.

    rectified(z)_i = sqrt(2 / M) cos(w_i·u + b_i),   u = z / |z|,   i = 1 ... M
    w_i from N(0, 2 gamma I), b_i uniform in [0, 2 pi)

so that the inner product of two rows is about exp(-gamma |u - v|²). Before PCAReconstruction it is
CoRP of Fang, Tao, Lv, He, Huang, Yang: Kernel PCA for Out-of-Distribution Detection, NeurIPS 2024:
`make_pipeline(RandomFourier(), PCAReconstruction(share=0.8))`. gamma = 2, M = 2048 and that share
are their choices for CIFAR-10 (3, 4096 and 0.5 for ImageNet). The features: Rahimi, Recht: Random
Features for Large-Scale Kernel Machines, NeurIPS 2007. A zero row is taken for u = 0. Fit: draws w
and b from the seed, for as many features as there are. Transform: one product with an (m, M)
matrix.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from typica.arrays import Array, like, namespace
from typica.checks import count, positive
from typica.linalg import unit_rows
from typica.rectify.base import NewWidth
from typica.store import storable
from typica.tags import Tags


@storable("random_fourier")
class RandomFourier(NewWidth):
    """Map directions to random cosines.

    Parameters
    ----------
    gamma
        Of the kernel.
    width
        How many cosines there are, M in the formula.
    seed
        Draws them.

    >>> rows = np.array([[3.0, 4.0], [6.0, 8.0], [4.0, 3.0]])
    >>> mapped = RandomFourier(width=4096).fit(rows).transform(rows)
    >>> (mapped @ mapped.T).round(1)
    array([[1. , 1. , 0.9],
           [1. , 1. , 0.9],
           [0.9, 0.9, 1. ]])
    """

    tags = Tags(
        mergeable=True,
        tolerance=(1e-5, 1e-11),
        fit_cost="O(m M), M the width",
        score_cost="O(m M)",
        memory="O(m M)",
        reference="Fang et al. 2024, NeurIPS",
    )
    params = {"gamma": positive(), "width": count(), "seed": count(0)}
    _frequencies: NDArray[np.float64]
    _phases: NDArray[np.float64]

    def __init__(self, gamma: float = 2.0, width: int = 2048, seed: int = 0) -> None:
        self.gamma = gamma
        self.width = width
        self.seed = seed

    def _absorb(self, other: Self) -> None:
        """Learn nothing: what is drawn depends only on the seed."""

    def _derive(self) -> None:
        rng = np.random.default_rng(self.seed)
        shape = (self.width, self.n_features_in_)
        self._frequencies = np.sqrt(2 * self.gamma) * rng.standard_normal(shape)
        self._phases = 2 * np.pi * rng.random(self.width)

    @property
    def _n_features_out(self) -> int:
        return int(self.width)

    def _width(self) -> int:
        return int(self.width)

    def _rectify(self, Z: Array) -> Array:
        U = unit_rows(Z)
        angles = U @ like(self._frequencies, Z).T + like(self._phases, Z)
        return float(np.sqrt(2 / self.width)) * namespace(Z).cos(angles)
