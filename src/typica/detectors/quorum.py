"""Quorum: angle, energy and distance, each in units of its own tail on known inputs, add up.

    score(z) = min(z_c, z_r) + s(z_e) + min(z_d, 0),   s(a) = a below 0, a / (1 + a) above

with M_k the class means, mu the mean of the M_k, Sw the covariance within classes (divisor N - C),
S = 0.9 Sw + 0.1 tr(Sw)/m I = L Lᵀ, V and b the eigenvectors and eigenvalues of the covariance of
the rows (M_k - mu) L⁻ᵀ (divisor C - 1), A = L⁻ᵀ V, x = (z - mu) A, and four witnesses:

    c = max_k cos(x, P_k)          P_k = unit(U_k + H_k),   U_k = unit((M_k - mu) A),
                                   H_k = unit(A⁻¹ (w_k - mean w)),   w_k = row k of the head
    r = max_k cos(z, M_k)          which is CTM
    e = logsumexp(l) - mean(l)     l = logits of z
    d = -sum_j x_j² / (1 + beta_j)     beta = max(b - mean(1 / n_k), 0)

Without a head P = U and e = logsumexp_k(x·m_k - |m_k|²/2), m_k = (M_k - mu) A. With one class c is
left out. Each witness is taken in units of its tail, z_v = (v - median) / (median - 5 % quantile),
over at most `keep` training rows, scored by five-fold cross-fitting: by a geometry from whose
moments the rows' own were subtracted.

Each witness sees another departure, and an excess of one must not make up for the deficit of
another: so the energy saturates, and the distance only penalises. Typica's own; no paper. Higher =
more typical. Fit: one pass, and a Cholesky factor of S for all rows and for each fold. Score: one
product with A, and one each with the P_k, the M_k and the head.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from typica.arrays import AnyArray, Array, Labels, Rows, namespace
from typica.checks import count
from typica.detectors._bases.means import LearnsClassMeans, mean_directions
from typica.detectors._bases.scatter import ScatterDetector, nan_as_minus_infinity
from typica.detectors._kept_rows import KeptRows, quantile_of_kept
from typica.detectors._quorum_witnesses import Geometry, Witnesses, witnesses, witnesses_and_cosines
from typica.detectors.base import Tags
from typica.errors import InputError
from typica.explanation import Term
from typica.head import HEAD, Head
from typica.linalg import Floats
from typica.moments import Moments
from typica.store import storable

FOLDS = 5
TAIL = 0.05  # the quantile that lies one tail below the median
LEAST_TAIL = 1e-12
ARRAYS = 4  # of one row per input that scoring makes: blocks are cut so that all stay in the cache


class Terms(NamedTuple):
    """What the witnesses say, in units of their tails, the two angles as one."""

    angle: Array
    energy: Array
    distance: Array


def saturated(a: Array) -> Array:
    """Return a below 0 and a / (1 + a) above.

    >>> saturated(np.array([-2.0, 0.0, 3.0]))
    array([-2.  ,  0.  ,  0.75])
    """
    xp = namespace(a)
    return a / (1 + xp.where(a > 0, a, xp.zeros_like(a)))


def penalty(a: Array) -> Array:
    """Return a term of Quorum's score that only penalises: a below 0, and 0 above."""
    xp = namespace(a)
    return xp.where(a < 0, a, xp.zeros_like(a))


@storable("quorum")
class Quorum(LearnsClassMeans, ScatterDetector):
    """Four witnesses in one score, for those who do not want to choose a method.

    head: the classifier's last layer, if there is one; every label of the training data must be one
    of its classes. keep: how many training rows the tails are measured on. They stay with the
    detector, and in its file, so that a fit can go on. Without labels all rows count as one class.

    >>> left, right = [[9.0, 1.0], [9.0, 2.0], [8.0, 1.5]], [[1.0, 9.0], [2.0, 9.0], [1.5, 8.0]]
    >>> train = np.array((left + right) * 10) + np.arange(60)[:, None] / 100
    >>> detector = Quorum().fit(train, (["left"] * 3 + ["right"] * 3) * 10)
    >>> typical, strange = detector.score_samples(np.array([[9.0, 1.5], [9.0, 9.0]]))
    >>> bool(typical > -1), bool(strange < -5)
    (True, True)
    """

    tags = Tags(
        uses_head=True,
        uses_labels=True,
        keeps_rows=True,
        mergeable=True,
        tolerance=(2e-5, 1e-9),
        fit_cost="O(N m² + m³)",
        score_cost="O(m² + m C)",
        memory="O(m² + m C), and keep rows until it is exported",
        reference="Typica",
    )
    params = {"head": HEAD, "keep": count(2)}
    learnt_by = ("keep",)

    kept_: KeptRows
    _geometry: Geometry
    _medians: list[float]
    _tails: list[float]

    def __init__(self, head: Head | None = None, keep: int = 5000) -> None:
        self.head = head
        self.keep = keep

    def _learn(self, Z: Rows, labels: Labels | None) -> None:
        # Before the products, after which threads of BLAS turn on for a while and are in the way.
        kept = KeptRows.of(Z, labels, self.keep)
        super()._learn(Z, labels)
        self._keep(kept)

    def _absorb(self, other: Self) -> None:
        super()._absorb(other)
        self._keep(other.kept_)

    def _keep(self, more: KeptRows) -> None:
        known: KeptRows | None = getattr(self, "kept_", None)
        self.kept_ = more if known is None else known.merge(more, self.keep)

    def _derive(self) -> None:
        mean_directions(self.moments_)  # raises if a mean has no direction
        self._geometry = Geometry.of(self.moments_, self.head)
        medians, tails = [], []
        for values in self._cross_fitted():
            median, low = self._quantiles(values)
            medians.append(median)
            tails.append(max(median - low, LEAST_TAIL))
        self._medians, self._tails = medians, tails  # whole, for other threads

    def _quantiles(self, values: Floats) -> tuple[float, float]:
        """Return the median and the TAIL quantile of what one witness says of the rows kept."""
        heard = ~np.isnan(values)
        if not heard.any():
            return 0.0, 0.0
        said, counts = values[heard], self.kept_.counts[heard]
        return quantile_of_kept(said, counts, 0.5), quantile_of_kept(said, counts, TAIL)

    def _cross_fitted(self) -> Floats:
        """Return what the witnesses (4, k) say about the rows kept, without having seen their fold.

        NaN where one says nothing, because all other folds are of one class.
        """
        said = np.full((len(Witnesses._fields), len(self.kept_.rows)), np.nan)
        folds = self.kept_.folds(FOLDS)
        for fold in np.unique(folds):
            chosen = folds == fold
            unseen = self.kept_.part(chosen)
            rest = self.moments_.minus(unseen.moments())
            geometry = self._geometry_of_rest(rest).like(unseen.rows)
            for witness, values in enumerate(witnesses(unseen.rows, geometry, self.head)):
                if values is not None:
                    said[witness, chosen] = values
        return said

    def _geometry_of_rest(self, rest: Moments) -> Geometry:
        """Return the geometry of the rows outside of a fold."""
        try:
            return Geometry.of(rest, self.head)
        except InputError:
            n, n_classes = self.moments_.n, len(self.moments_.classes)
            raise InputError(
                f"n_samples={n} in {n_classes} class(es) do not vary within a class, once a fold "
                "of them is left out; pass rows that differ, 3 or more of a class."
            ) from None

    def _in_tails(self, said: Witnesses) -> Terms:
        """Return the terms of the score, in units of the tails."""
        scaled = []
        for value, median, tail in zip(said, self._medians, self._tails, strict=True):
            scaled.append(None if value is None else (value - median) / tail)
        c, r, e, d = scaled
        angle = r if c is None else namespace(r).minimum(c, r)
        return Terms(angle=angle, energy=e, distance=d)

    def _typicality(self, Z: Array) -> Array:
        return self._together(witnesses(Z, self._like("_geometry", Z), self.head))

    def _together(self, said: Witnesses) -> Array:
        terms = self._in_tails(said)
        return terms.angle + saturated(terms.energy) + penalty(terms.distance)

    def _similarities(self, Z: Array) -> Array:
        return self._score_and_similarities(Z)[1]

    def _score_and_similarities(self, Z: Array) -> tuple[Array, Array]:
        geometry = self._like("_geometry", Z)
        with np.errstate(over="ignore", invalid="ignore"):
            said, similarities = witnesses_and_cosines(Z, geometry, self.head)
            scores = self._together(said)
        return nan_as_minus_infinity(scores), nan_as_minus_infinity(similarities)

    def _score_width(self) -> int:
        width = max(self._geometry.means.shape)
        if self.head is not None:
            width = max(width, len(self.head.classes))
        return ARRAYS * int(width)

    def _terms(self, z: AnyArray) -> tuple[Term, ...]:
        said = witnesses(z[None], self._like("_geometry", z[None]), self.head)
        angle, energy, distance = self._in_tails(said)
        return (
            _term("angle", angle, angle, "low"),
            _term("energy", energy, saturated(energy), "low"),
            _term("distance", distance, penalty(distance), "high"),
        )

    def _note(self, z: AnyArray) -> str:
        if z.any():
            return ""
        return "the feature vector is zero and has no direction, so its cosines count as -1"


def _term(name: str, tails: Array, amount: Array, departure: str) -> Term:
    """Return one term of one row; within a tail of the median it is ordinary."""
    low = -float(tails[0])
    words = f"{low:.1f} tails {departure}" if low > 1 else "ordinary"
    return Term(name, float(amount[0]), f"the {name} is {words}")
