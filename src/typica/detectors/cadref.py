"""CADRef: CARef's error in two parts, of which the energy of the logits divides one.

    score(z) = -(e_plus / S(z) + e_minus / mean S),   S(z) = log sum exp of the logits of z
    e_plus = sum of |z_j - mu_kj| / |z|_1 over the features with w_kj (z_j - mu_kj) > 0
    e_minus = the same sum over the other features

with k and mu as in `CARef`, w_k the head's row of class k, and the mean of S over the training
features. Ling, Chang, Zhao, Zhao, Chow, Deng: CADRef: Robust Out-of-Distribution Detection via
Class-Aware Decoupled Relative Feature Leveraging, CVPR 2025. Higher = more typical, as in the
authors' code. That takes for granted that energies are positive: here S(z) is at least a thousandth
of its mean. Features with w_kj = 0 count in neither part there, and in e_minus here. Fit: one pass,
with two products with the head. Score: one product with the head.
"""

from __future__ import annotations

from typing import Self

import numpy as np

from typica.arrays import Array, Labels, Rows, like, map_rows, namespace
from typica.detectors.caref import CARef, relative
from typica.errors import InputError
from typica.linalg import logsumexp
from typica.store import storable

LEAST_ENERGY = 1e-3  # of an input, as a part of the mean


@storable("cadref")
class CADRef(CARef):
    """Class-aware decoupled relative feature error.

    A class that is predicted for no training row has the mean zero. A zero row scores -inf.

    >>> from typica import Head
    >>> train = np.array([[4.0, 0.0], [0.0, 4.0]] * 10)
    >>> detector = CADRef(Head(np.eye(2))).fit(train)
    >>> detector.score_samples(np.array([[6.0, 0.0], [2.0, 0.0]])).round(3)
    array([-0.056, -0.249])
    """

    energy_sum_: float
    _energy: float

    def _learn(self, Z: Rows, labels: Labels | None) -> None:
        super()._learn(Z, labels)
        energies = map_rows(lambda rows: logsumexp(self._head.logits(rows)), Z, self._score_width())
        self.energy_sum_ = self._known_energy() + float(energies.sum(dtype=np.float64))

    def _absorb(self, other: Self) -> None:
        super()._absorb(other)
        self.energy_sum_ = self._known_energy() + other.energy_sum_

    def _known_energy(self) -> float:
        return float(getattr(self, "energy_sum_", 0.0))

    def _derive(self) -> None:
        super()._derive()
        self._energy = self.energy_sum_ / self.moments_.n
        if self._energy <= 0:
            raise InputError(
                f"the energies of the training features average {self._energy:.3g}, but they are "
                "divisors and must be positive; check that the head belongs to the features."
            )

    def _score_with_logits(self, Z: Array, L: Array) -> Array:
        xp = namespace(Z)
        predicted = xp.argmax(L, axis=1)
        D = Z - xp.take(self._like("_means", Z), predicted, axis=0)
        weights = xp.take(like(self._head.weight, Z), predicted, axis=0)
        none = xp.zeros_like(D)
        along = weights * D > 0
        energy = logsumexp(L)
        least = xp.full_like(energy, LEAST_ENERGY * self._energy)
        energy = xp.where(energy > least, energy, least)
        plus = relative(xp.where(along, xp.abs(D), none), Z)
        minus = relative(xp.where(along, none, xp.abs(D)), Z)
        return -(plus / energy + minus / self._energy)
