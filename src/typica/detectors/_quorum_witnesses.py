"""Quorum's witnesses: what the angle, the energy and the distance of a row say of it.

The formulas stand in `quorum`.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from typica.arrays import Array, Labels, Rows, like, namespace
from typica.cosines import cosines, max_cosine
from typica.errors import InputError
from typica.head import Head, check_known
from typica.largest import row_max
from typica.linalg import Floats, anchor, inverse_of_triangle, logsumexp, unit_rows
from typica.moments import Moments

SHRINKAGE = 0.1  # the share of S that is a multiple of the identity


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
        directions = unit_rows(means)
        if head is not None and len(means) > 1:
            weights = _centred_weights(head, moments.classes)
            of_head = unit_rows(turned(weights @ factor, leading))
            directions = unit_rows(directions + of_head)
        return cls(
            center=center,
            shift=(mu - center) @ axes,
            axes=axes,
            shrunk=1 / (1 + beta),
            means=means,
            halves=np.vecdot(means, means) / 2,
            directions=directions,
            raw=unit_rows(moments.means),
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


def _centred_weights(head: Head, classes: Labels) -> Floats:
    """Return the head's rows (C, m) of these classes for Quorum, less the mean of all its rows."""
    check_known(classes, head)
    order = np.argsort(head.classes, kind="stable")
    places = order[np.searchsorted(head.classes, classes, sorter=order)]
    weights = head.weight.astype(np.float64)
    return np.asarray(weights[places] - weights.mean(axis=0))
