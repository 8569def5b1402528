"""BATS: activations are brought back into the typical range of their feature.

    rectified(z)_j = min(max(z_j, mean_j - lambda sigma_j), mean_j + lambda sigma_j)

with the mean and standard deviation of feature j over the training rows. Zhu, Chen, Xie, Li, Zhang,
Xue, Tian, Zheng, Chen: Boosting Out-of-distribution Detection with Typical Features, NeurIPS 2022.
The paper truncates inside batch normalisation; this is what its authors' code does with the last
features. lambda = 3.25 is their choice for CIFAR-10, 1.05 for a ViT on ImageNet. Counts, means and
squared deviations are kept in float64, and stream and merge. Fit: one pass. Transform: two
comparisons.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from typica.arrays import Array, Labels, Rows, as_floating, check_rows, like, namespace, row_blocks
from typica.checks import positive
from typica.rectify.base import SameWidth
from typica.store import storable
from typica.tags import Tags


def clamp(Z: Array, low: Array, high: Array) -> Array:
    """Return Z (n, m) with every column j brought between low_j and high_j, in Z's backend.

    >>> clamp(np.array([[-2.0, 0.5, 9.0]]), np.zeros(3), np.ones(3))
    array([[0. , 0.5, 1. ]])
    """
    xp = namespace(Z)
    return xp.minimum(xp.maximum(Z, low), high)


@storable("bats")
class BATS(SameWidth):
    """Clamp every feature to `mean_` plus or minus `sigmas` standard deviations.

    sigmas: the lambda of the formula. A feature that is constant in training becomes that constant.

    >>> train = np.array([[0.0], [2.0], [4.0]] * 10)
    >>> BATS(sigmas=1).fit(train).transform(np.array([[2.5], [9.0]])).round(3).tolist()
    [[2.5], [3.633]]
    """

    tags = Tags(
        mergeable=True,
        fit_cost="O(N m)",
        score_cost="O(m)",
        memory="O(m)",
        reference="Zhu et al. 2022, NeurIPS",
    )
    params = {"sigmas": positive()}
    n_: int
    mean_: NDArray[np.float64]
    squares_: NDArray[np.float64]
    _low: NDArray[np.float64]
    _high: NDArray[np.float64]

    def __init__(self, sigmas: float = 3.25) -> None:
        self.sigmas = sigmas

    def _learn(self, Z: Rows, labels: Labels | None) -> None:
        check_rows(Z)
        for block in row_blocks(len(Z), Z.shape[1], itemsize=8):
            rows = as_floating(Z[block]).astype(np.float64, copy=False)
            mean = rows.mean(axis=0)
            self._combine(len(rows), mean, np.sum((rows - mean) ** 2, axis=0))

    def _absorb(self, other: Self) -> None:
        self._combine(other.n_, other.mean_, other.squares_)

    def _combine(self, n: int, mean: NDArray[np.float64], squares: NDArray[np.float64]) -> None:
        """Take in rows by their number, mean and squared deviations from it."""
        if not hasattr(self, "n_"):
            self.n_, self.mean_, self.squares_ = n, mean, squares
            return
        total, apart = self.n_ + n, mean - self.mean_
        self.squares_ = self.squares_ + squares + apart**2 * (self.n_ * n / total)
        self.mean_ = self.mean_ + apart * (n / total)
        self.n_ = total

    def _derive(self) -> None:
        reach = self.sigmas * np.sqrt(self.squares_ / self.n_)
        self._low = self.mean_ - reach
        self._high = self.mean_ + reach

    def _rectify(self, Z: Array) -> Array:
        return clamp(Z, like(self._low, Z), like(self._high, Z))
