"""Pure kernels: unit rows, lengths, centres and distances, softmax, scatters and residuals.

They take arrays of any backend unless their types say NumPy, keep the dtype, and never write to
their input.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Self

import numpy as np
from array_api_compat import is_torch_array
from numpy.typing import NDArray

from typica.arrays import Array, is_at_hand, is_numpy, like, namespace, surely_between
from typica.largest import row_max

Floats = NDArray[np.float64]

_SMALL = 64  # rows of a matrix that is not worth halving


# Directions and lengths of rows


def unit_rows(Z: Array) -> Array:
    """Return the rows of a matrix scaled to length 1; zero rows stay zero.

    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    return units(Z)[0]


def units(Z: Array) -> tuple[Array, Array]:
    """Return what `unit_rows` does with Z (n, m), and which rows are zero.

    The result for a row depends on no other row, to the last bit, and no NaN enters its gradient.

    >>> units(np.array([[3.0, 4.0], [0.0, 0.0]]))
    (array([[0.6, 0.8],
           [0. , 0. ]]), array([False,  True]))
    """
    lengths, directions = polar(np.ascontiguousarray(Z) if is_numpy(Z) else Z)
    return directions, lengths == 0


def unit_length(Z: Array) -> Array:
    """Return what `unit_rows` does up to rounding, but faster: most rows need no rescaling.

    >>> unit_length(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    Z, lengths, _ = directed(Z)  # the length of a zero row is given as 1
    return Z / lengths[:, None]


def over_lengths(Z: Array, exponent: float) -> Array:
    """Return the rows z of a matrix over a power of their lengths, z / |z|^exponent; 0 stays 0.

    >>> over_lengths(np.array([[3.0, 4.0], [0.0, 0.0]]), 0.5).round(3)
    array([[1.342, 1.789],
           [0.   , 0.   ]])
    """
    xp = namespace(Z)
    largest = xp.max(xp.abs(Z), axis=1)
    zero = largest == 0
    one = xp.ones_like(largest)
    largest = xp.where(zero, one, largest)
    # Divided first, so that squares neither overflow nor underflow.
    Z = Z / largest[:, None]
    roots = xp.sqrt(xp.where(zero, one, xp.vecdot(Z, Z)))
    lengths = largest * roots
    return Z * (lengths ** (1.0 - float(exponent)) / roots)[:, None]


def polar(X: Array) -> tuple[Array, Array]:
    """Return the lengths (n,) and directions (n, m) of the rows of X (n, m); 0 for a zero row.

    >>> polar(np.array([[3.0, 4.0]]))
    (array([5.]), array([[0.6, 0.8]]))
    """
    xp = namespace(X)
    largest = xp.max(xp.abs(X), axis=1)
    some = largest > 0
    ones = xp.ones_like(largest)
    X = X / xp.where(some, largest, ones)[:, None]  # so that squares neither overflow nor underflow
    lengths = xp.sqrt(xp.where(some, xp.vecdot(X, X), ones))
    return largest * lengths, X / lengths[:, None]


def directed(Z: Array) -> tuple[Array, Array, Array | None]:
    """Return rows in the directions of Z's, their lengths, and which are zero (of length 1 here).

    A row whose squares could overflow or underflow is rescaled, the others stay as they are. The
    lengths are safe to divide by, and no NaN enters their gradient. The last is None if surely no
    row is zero.
    """
    xp = namespace(Z)
    info = xp.finfo(Z.dtype)
    least, most = math.sqrt(info.smallest_normal / info.eps), math.sqrt(info.max)
    looked = is_at_hand(Z)
    if looked:
        lengths = _lengths(Z)
        if surely_between(lengths, least, most):
            return Z, lengths, None
    largest = xp.max(xp.abs(Z), axis=1)
    zero = largest == 0
    usual = (largest >= least) & (largest <= most / math.sqrt(Z.shape[1]))
    one = xp.ones_like(largest)
    Z = Z / xp.where(usual | zero, one, largest)[:, None]
    if looked:
        sized = xp.where(zero[:, None], one[:, None], Z)  # so that no NaN enters a gradient
        return Z, xp.where(zero, one, _lengths(sized)), zero
    return Z, xp.sqrt(xp.where(zero, one, xp.sum(Z * Z, axis=1))), zero


def _lengths(Z: Array) -> Array:
    """Return the lengths of the rows of Z, wrong where their squares overflow or underflow."""
    if not is_numpy(Z):
        xp = namespace(Z)
        if is_torch_array(Z) and not Z.is_contiguous():  # whose vector_norm adds without pairing
            return xp.sqrt(xp.sum(Z * Z, axis=1))
        return xp.linalg.vector_norm(Z, axis=1)
    with np.errstate(over="ignore", under="ignore"):
        return np.sqrt(np.vecdot(Z, Z))  # no copy of Z, which NumPy's vector_norm makes


def paired_distances(A: Array, B: Array) -> Array:
    """Return |a - b| for each row a of A (n, m) and b of B; where it is 0, so is its gradient.

    >>> paired_distances(np.array([[0.0, 3.0], [1.0, 1.0]]), np.array([[4.0, 0.0], [1.0, 1.0]]))
    array([5., 0.])
    """
    D = A - B
    return safe_root(namespace(A).sum(D * D, axis=1))


def squares_to_nearest(U: Array, V: Array) -> Array:
    """Return the squared distance from each row of U (n, r) to the nearest row of V (C, r).

    >>> squares_to_nearest(np.array([[3.0, 4.0], [9.0, 9.0]]), np.array([[0.0, 0.0], [9.0, 8.0]]))
    array([25.,  1.])
    """
    return _square_to_largest(U, V, _reaches(U, V))


def half_squares(U: Array, V: Array) -> Array:
    """Return minus half the squared distances (n, C) between rows of U (n, r) and V (C, r)."""
    return _halves(U, _reaches(U, V))


def squares_and_halves(U: Array, V: Array) -> tuple[Array, Array]:
    """Return what `squares_to_nearest` and `half_squares` do, from one product."""
    reaches = _reaches(U, V)
    return _square_to_largest(U, V, reaches), _halves(U, reaches)


def _reaches(U: Array, V: Array) -> Array:
    """Return u·v - |v|²/2 of all pairs of rows, for `squares_to_nearest` and `half_squares`."""
    return U @ V.T - namespace(U).vecdot(V, V) / 2


def _square_to_largest(U: Array, V: Array, reaches: Array) -> Array:
    """Return |u - v|² to the v of largest reach, for `squares_to_nearest`: nothing cancels."""
    xp = namespace(U)
    D = U - xp.take(V, xp.argmax(reaches, axis=1), axis=0)
    return xp.vecdot(D, D)


def _halves(U: Array, reaches: Array) -> Array:
    xp = namespace(U)
    halves = reaches - (xp.vecdot(U, U) / 2)[:, None]
    return xp.where(halves > 0, xp.zeros_like(halves), halves)


# Sums and roots of the numbers of a row


def sum_in_units(P: Array, unit: Array) -> Array:
    """Return the sums (n, 1) of rows of any matrix P in units (n, 1): none of them overflows."""
    return namespace(P).sum(P / unit, axis=1, keepdims=True)


def row_unit(top: Array) -> Array:
    """Return the largest number (n, 1) of each row of a matrix, 1 where it is 0, to divide by."""
    xp = namespace(top)
    most = xp.max(top, axis=1, keepdims=True)
    return xp.where(most > 0, most, xp.ones_like(most))


def safe_root(squares: Array) -> Array:
    """Return the roots of numbers >= 0, whose gradient at 0 is 0.

    >>> safe_root(np.array([0.0, 4.0]))
    array([0., 2.])
    """
    xp = namespace(squares)
    zero = squares == 0
    # The root of 1 in place of 0, so that no NaN enters the gradient.
    roots = xp.sqrt(xp.where(zero, xp.ones_like(squares), squares))
    return xp.where(zero, xp.zeros_like(squares), roots)


# The softmax family


def logsumexp(L: Array) -> Array:
    """Return log(sum(exp(L))) along the rows of the finite L (n, C), without overflow.

    >>> logsumexp(np.array([[1000.0, 1000.0]])).round(4)
    array([1000.6931])
    """
    xp = namespace(L)
    most = row_max(L)
    return most + xp.log(xp.sum(xp.exp(L - most[:, None]), axis=1))


def softmax(L: Array) -> Array:
    """Return exp(L) / sum(exp(L)) along the rows of the finite L (n, C), without overflow.

    >>> softmax(np.array([[1000.0, 1000.0]]))
    array([[0.5, 0.5]])
    """
    xp = namespace(L)
    weights = xp.exp(L - row_max(L)[:, None])
    return weights / xp.sum(weights, axis=1)[:, None]


def log_softmax(L: Array) -> Array:
    """Return log(softmax(L)) along the rows of the finite L (n, C).

    >>> log_softmax(np.array([[1e4, 1e4]])).round(4)
    array([[-0.6931, -0.6931]])
    """
    xp = namespace(L)
    L = L - row_max(L)[:, None]  # first, so that large logits cost no precision
    return L - xp.log(xp.sum(xp.exp(L), axis=1, keepdims=True))


def softmax_surplus(L: Array) -> Array:
    """Return softmax(L) - 1/C along the rows of L (n, C), precise where it is nearly 0.

    With g = exp(L - max L) - 1 it is (g - mean g) / (C + sum g).

    >>> softmax_surplus(np.array([[0.0, 1e-12], [0.0, np.log(3.0)]]))
    array([[-2.5e-13,  2.5e-13],
           [-2.5e-01,  2.5e-01]])
    """
    xp = namespace(L)
    g = xp.expm1(L - xp.max(L, axis=1, keepdims=True))
    return (g - xp.mean(g, axis=1, keepdims=True)) / (L.shape[1] + xp.sum(g, axis=1, keepdims=True))


# Sums and scatters


def principal_axes(scatter: Floats, n: int) -> tuple[Floats, Floats]:
    """Return the variances (r,), largest first, and axes (m, m) of any scatter matrix of n rows.

    Column j of the axes belongs to variance j; along the columns from r on the rows do not vary.
    That is where the variance is at most eps * max(m, sqrt(n)) times the largest (eps of float64):
    what rounding leaves of a sum of n products.

    >>> variances, axes = principal_axes(np.diag([0.0, 8.0]), n=2)
    >>> variances, abs(axes).tolist()
    (array([4.]), [[0.0, 1.0], [1.0, 0.0]])
    """
    values, vectors = symmetric_axes(scatter / n)
    values, vectors = values[::-1], vectors[:, ::-1]
    cut = np.finfo(np.float64).eps * max(len(values), np.sqrt(n)) * values[0]
    return values[values > max(cut, 0.0)], vectors


def symmetric_axes(S: Floats) -> tuple[Floats, Floats]:
    """Return the eigenvalues (m,), ascending, and eigenvectors (m, m) of a scatter matrix S.

    LAPACK may not converge where entries differ by hundreds of orders of magnitude: axes along
    which S is below the rounding of the others' eigenvalues count as 0.
    """
    along = np.diagonal(S)
    lost = along < np.finfo(np.float64).eps ** 3 * along.max(initial=0)
    if lost.any():
        S = np.where(lost[:, None] | lost, 0.0, S)
    values, vectors = np.linalg.eigh(S)
    return values, vectors


def shrunk_factor(scatter: Floats, n: int, d: float) -> Floats:
    """Return F (m, r) with F Fᵀ = inverse of the shrunk scatter / n; its pseudoinverse for d = 0.

    S = scatter / n of n rows is shrunk to (1 - d) S + d tr(S)/m I.

    >>> shrunk_factor(np.diag([8.0, 0.0]), n=2, d=0.0)
    array([[0.5],
           [0. ]])
    >>> abs(shrunk_factor(np.diag([8.0, 0.0]), n=2, d=0.5)).round(3)
    array([[0.577, 0.   ],
           [0.   , 1.   ]])
    """
    variances, vectors = principal_axes(scatter, n)
    if d > 0:
        m = len(scatter)
        everywhere = np.pad(variances, (0, m - len(variances)))
        variances = (1 - d) * everywhere + d * np.trace(scatter) / n / m
    return np.asarray(vectors[:, : len(variances)] / np.sqrt(variances))


def inverse_of_triangle(L: Floats) -> Floats:
    """Return the inverse of a lower triangular L (m, m), by halves: a quarter of a general one.

    It uses NumPy's products: where SciPy's threads and NumPy's take turns on small matrices, they
    wait for each other.

    >>> inverse_of_triangle(np.array([[2.0, 0.0], [3.0, 1.0]]))
    array([[ 0.5,  0. ],
           [-1.5,  1. ]])
    """
    if len(L) <= _SMALL:
        return np.tril(np.linalg.inv(L))
    half = len(L) // 2
    above = inverse_of_triangle(L[:half, :half])
    below = inverse_of_triangle(L[half:, half:])
    inverse = np.zeros_like(L)
    inverse[:half, :half] = above
    inverse[half:, half:] = below
    inverse[half:, :half] = -(below @ (L[half:, :half] @ above))
    return inverse


def anchor(point: Floats) -> Floats:
    """Return the centre that a projection of rows subtracts: what float32 holds nearest to `point`.

    Rows are moved by it before they are multiplied, and the small rest of `point` is subtracted
    after that. So rows that share a large offset lose no digits to it, even in float32.
    """
    with np.errstate(over="ignore"):
        near = point.astype(np.float32).astype(np.float64)
    return np.where(np.isfinite(near), near, point)


class Residuals(NamedTuple):
    """The length of the part of a row that lies outside a subspace through a point.

    center (m,): the point's anchor; basis (m, r): orthonormal directions outside the subspace,
    divided by `scale`; shift (r,): the rest of the point along them. `scale` is the size of the
    training rows: lengths in its unit have squares that float32 can hold, whatever the unit of the
    features.
    """

    center: Floats
    basis: Floats
    shift: Floats
    scale: float

    @classmethod
    def outside(cls, point: Floats, variances: Floats, vectors: Floats, dim: int) -> Self:
        """Measure from `point` what lies outside the `dim` leading directions that vary."""
        scale = float(np.sqrt(variances.sum())) or float(np.abs(point).max()) or 1.0
        center, basis = anchor(point), vectors[:, min(dim, len(variances)) :] / scale
        return cls(center, np.ascontiguousarray(basis), (point - center) @ basis, scale)

    def lengths(self, Z: Array) -> Array:
        """Return the length of each row's residual over `scale`; 0 has the gradient 0."""
        xp = namespace(Z)
        R = (Z - like(self.center, Z)) @ like(self.basis, Z)
        R -= like(self.shift, Z)  # in place: a third array would not stay in the cache
        return safe_root(xp.vecdot(R, R))
