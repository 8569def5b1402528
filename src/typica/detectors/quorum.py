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
from numpy.typing import NDArray

from typica.arrays import AnyArray, Array, Labels, Rows, like, namespace
from typica.checks import count
from typica.cosines import cosines, max_cosine
from typica.detectors._bases import (
    LearnsClassMeans,
    ScatterDetector,
    mean_directions,
    nan_as_minus_infinity,
)
from typica.detectors._kept_rows import KeptRows, quantile_of_kept
from typica.detectors.base import Tags
from typica.errors import InputError
from typica.explanation import Term
from typica.head import HEAD, Head
from typica.linalg import Floats, anchor, inverse_of_triangle, logsumexp, row_max, units
from typica.moments import Moments
from typica.store import storable

SHRINKAGE = 0.1  # the share of S that is a multiple of the identity
FOLDS = 5
TAIL = 0.05  # the quantile that lies one tail below the median
LEAST_TAIL = 1e-12
ARRAYS = 4  # of one row per input that scoring makes: blocks are cut so that all stay in the cache


class Geometry(NamedTuple):
    """What the witnesses compare a row with: arrays of one backend and dtype.

    center (m,) and shift (m,): mu, as an anchor before the product with the axes A (m, m) and the
    rest after it; shrunk (r,): the first of 1 / (1 + beta), the others being 1; means (C, m): the
    m_k, and halves (C,): |m_k|²/2; directions (C, m): the P_k; raw (C, m): the M_k of length 1.
    """

    center: Array
    shift: Array
    axes: Array
    shrunk: Array
    means: Array
    halves: Array
    directions: Array
    raw: Array

    @classmethod
    def of(cls, moments: Moments, head: Head | None) -> Self:
        """Return Quorum's geometry of the rows whose moments, with scatter, these are."""
        factor: Floats = np.asarray(np.linalg.cholesky(shrunk_covariance(moments)))
        whitening = inverse_of_triangle(factor).T
        mu = moments.means.mean(axis=0)
        white = (moments.means - mu) @ whitening
        beta, leading = spread_of_means(white, moments.counts)
        axes, means, center = turned(whitening, leading), turned(white, leading), anchor(mu)
        directions, _ = units(means)
        if head is not None and len(means) > 1:
            weights = _centred_weights(head, moments.classes)
            of_head, _ = units(turned(weights @ factor, leading))
            directions, _ = units(directions + of_head)
        return cls(
            center=center,
            shift=(mu - center) @ axes,
            axes=axes,
            shrunk=1 / (1 + beta),
            means=means,
            halves=np.vecdot(means, means) / 2,
            directions=directions,
            raw=units(moments.means)[0],
        )

    def like(self, rows: Rows) -> Self:
        """Return the same in the dtype of these rows."""
        return type(self)(*(like(each, rows) for each in self))


class Witnesses(NamedTuple):
    """What four witnesses say of each row (n,); c is None with one class."""

    c: Array | None
    r: Array
    e: Array
    d: Array


class Terms(NamedTuple):
    """The same in units of their tails, the two angles as one."""

    angle: Array
    energy: Array
    distance: Array


def shrunk_covariance(moments: Moments) -> Floats:
    """Return Quorum's S = 0.9 Sw + 0.1 tr(Sw)/m I, or say that the rows have no covariance.

    >>> shrunk_covariance(Moments(scatter=True).add([[0.0, 0.0], [2.0, 0.0]]))
    array([[1.9, 0. ],
           [0. , 0.1]])
    """
    n, n_classes, m = moments.n, len(moments.classes), moments.n_features
    spread = np.zeros((m, m)) if n <= n_classes else moments.scatter_within() / (n - n_classes)
    variance = np.trace(spread)
    if not variance > 0:
        raise InputError(
            f"n_samples={n} in {n_classes} class(es) do not vary within a class, so there is no "
            "covariance; pass rows that differ, several per class."
        )
    S: Floats = (1 - SHRINKAGE) * spread + SHRINKAGE * variance / m * np.eye(m)
    return S


def spread_of_means(white: Floats, counts: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Return beta (r,) and the first r columns of V for the whitened, centred means (C, m).

    Where classes are fewer than features, an eigenproblem of their number does: outside the span of
    the means beta is zero, and any rotation will do.

    >>> beta, V = spread_of_means(np.array([[3.0, 0.0, 0.0], [-3.0, 0.0, 0.0]]), np.array([4, 4]))
    >>> beta, abs(V)
    (array([17.75]), array([[1.],
           [0.],
           [0.]]))
    """
    n_classes, m = white.shape
    noise = np.mean(1 / counts)
    if n_classes > m:
        values, vectors = np.linalg.eigh(white.T @ white / (n_classes - 1))
        return np.maximum(values - noise, 0), vectors
    values, vectors = np.linalg.eigh(white @ white.T / max(n_classes - 1, 1))
    wide = values > noise
    if not wide.any():
        return np.zeros(1), np.eye(m, 1)
    span = white.T @ (vectors[:, wide] / np.sqrt(values[wide]))
    leading, _ = np.linalg.qr(span)
    return values[wide] - noise, leading


def turned(rows: Floats, leading: Floats) -> Floats:
    """Return Quorum's rows (n, m) times a rotation whose first columns (m, r) alone are given.

    It is the reflection I - Y G⁻¹ Yᵀ that takes these columns to the first r axes, but for a turn
    among them, which they themselves put right.

    >>> turned(np.array([[1.0, 7.0]]), np.array([[0.0], [1.0]]))
    array([[ 7., -1.]])
    """
    m, r = leading.shape
    if r == m:
        return rows @ leading
    left, _, right = np.linalg.svd(leading[:r])
    Y = leading.copy()
    Y[:r] += left @ right
    products = rows - rows @ Y @ np.linalg.solve(Y.T @ leading, Y.T)
    products[:, :r] = rows @ leading
    return products


def whitened(Z: Array, geometry: Geometry) -> Array:
    """Return the rows x = (z - mu) A of Z (n, m), as Quorum whitens them."""
    X = (Z - geometry.center) @ geometry.axes
    X -= geometry.shift  # in place: a third array would not stay in the cache
    return X


def distance(X: Array, geometry: Geometry) -> Array:
    """Return sum_j x_j² / (1 + beta_j) of the rows x of X (n, m)."""
    r = geometry.shrunk.shape[0]
    spread = X[:, :r]
    squares = (spread * spread) @ geometry.shrunk
    if r < geometry.axes.shape[1]:
        rest = X[:, r:]
        squares = squares + namespace(X).vecdot(rest, rest)
    return squares


def witnesses(Z: Array, geometry: Geometry, head: Head | None) -> Witnesses:
    """Return what the witnesses say of the rows Z (n, m), in their backend and dtype."""
    X = whitened(Z, geometry)
    several = geometry.directions.shape[0] > 1
    angle = max_cosine(X, geometry.directions) if several else None
    return _with_angle(angle, Z, X, geometry, head)


def witnesses_and_cosines(
    Z: Array, geometry: Geometry, head: Head | None
) -> tuple[Witnesses, Array]:
    """Return what the witnesses say, and the cosines (n, C) that the first takes the largest of.

    Of one class, whose whitened mean is the centre, they are the cosines to its mean itself.
    """
    X = whitened(Z, geometry)
    if geometry.directions.shape[0] > 1:
        similarities = cosines(X, geometry.directions)
        return _with_angle(row_max(similarities), Z, X, geometry, head), similarities
    return _with_angle(None, Z, X, geometry, head), cosines(Z, geometry.raw)


def _with_angle(
    angle: Array | None, Z: Array, X: Array, geometry: Geometry, head: Head | None
) -> Witnesses:
    """Return what the witnesses say of rows Z, of whitened rows X and their angle to the means."""
    xp = namespace(Z)
    if head is None:
        energy = logsumexp(X @ geometry.means.T - geometry.halves)
    else:
        logits = head.logits(Z)
        energy = logsumexp(logits) - xp.mean(logits, axis=1)
    return Witnesses(
        c=angle,
        r=max_cosine(Z, geometry.raw),
        e=energy,
        d=-distance(X, geometry),
    )


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
    """Four witnesses in one score, for whoever does not want to choose a method.

    head: the classifier's last layer, if there is one: every label of the training data must be a
    class of it. keep: how many training rows the tails are measured on. They stay with the
    detector, in its file too, so that a fit can go on. Without labels all rows count as one class.

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
    params = {"head": HEAD, "keep": count()}

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
        mean_directions(self.moments_)  # says so where a mean has no direction
        self._geometry = Geometry.of(self.moments_, self.head)
        self._medians, self._tails = [], []
        for values in self._cross_fitted():
            median = quantile_of_kept(values, self.kept_.counts, 0.5)
            tail = median - quantile_of_kept(values, self.kept_.counts, TAIL)
            self._medians.append(median)
            self._tails.append(max(tail, LEAST_TAIL))

    def _cross_fitted(self) -> Floats:
        """Return what the witnesses (4, k) say of the rows kept, without having seen their fold."""
        said = np.zeros((len(Witnesses._fields), len(self.kept_.rows)))
        folds = self.kept_.folds(FOLDS)
        for fold in np.unique(folds):
            chosen = folds == fold
            unseen = self.kept_.part(chosen)
            rest = self.moments_.minus(unseen.moments())
            geometry = Geometry.of(rest, self.head).like(unseen.rows)
            for witness, values in enumerate(witnesses(unseen.rows, geometry, self.head)):
                if values is not None:
                    said[witness, chosen] = values
        return said

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


def _centred_weights(head: Head, classes: Labels) -> Floats:
    """Return the head's rows (C, m) of these classes for Quorum, less the mean of all its rows."""
    unknown = np.setdiff1d(classes, head.classes)
    if len(unknown):
        raise InputError(
            f"label {unknown[0]!s} is not a class of the head; remove its rows, or rename it."
        )
    order = np.argsort(head.classes, kind="stable")
    places = order[np.searchsorted(head.classes, classes, sorter=order)]
    weights = head.weight.astype(np.float64)
    return np.asarray(weights[places] - weights.mean(axis=0))


def _term(name: str, tails: Array, amount: Array, departure: str) -> Term:
    """Return one term of one row; within a tail of the median it is ordinary."""
    low = -float(tails[0])
    words = f"{low:.1f} tails {departure}" if low > 1 else "ordinary"
    return Term(name, float(amount[0]), f"the {name} is {words}")
