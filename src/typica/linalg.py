"""The pure kernels that several methods share: directions of rows, the softmax family, scatters.

They take arrays of any backend unless their types say NumPy, keep the dtype, and never write to
their input.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray, Array, is_numpy, is_traced, namespace

Floats = NDArray[np.float64]

_SMALL = 64  # rows of a matrix that is not worth halving
_SHORT = 16  # columns of rows that NumPy reduces faster when they stand side by side
NO_DIRECTION = -1.0  # the cosine of a zero row: as far from every direction as a cosine can be
TILE = 8192  # directions that a block of rows is multiplied with at once


# Directions and lengths of rows


def unit_rows(M: AnyArray) -> Floats:
    """Return the rows of M scaled to length 1, in float64; they must not be zero."""
    M = M.astype(np.float64, copy=False)
    largest = np.maximum(M.max(axis=1), -M.min(axis=1))
    U = M / largest[:, None]  # so that squares neither overflow nor underflow
    U /= np.sqrt(np.vecdot(U, U))[:, None]
    return np.asarray(U)


def units(Z: Array) -> tuple[Array, Array]:
    """Return the rows of Z (n, m) scaled to length 1, and which rows are zero: these stay zero.

    What becomes of a row depends on nothing else, to the last bit, and no NaN enters its gradient.

    >>> units(np.array([[3.0, 4.0], [0.0, 0.0]]))
    (array([[0.6, 0.8],
           [0. , 0. ]]), array([False,  True]))
    """
    xp = namespace(Z)
    if is_numpy(Z):
        Z = np.ascontiguousarray(Z)
    largest = xp.max(xp.abs(Z), axis=1)
    zero = largest == 0
    one = xp.ones_like(largest)
    # Divided first, so that squares neither overflow nor underflow.
    Z = Z / xp.where(zero, one, largest)[:, None]
    return Z / xp.sqrt(xp.where(zero, one, xp.vecdot(Z, Z)))[:, None], zero


def radial(Z: Array, exponent: float) -> Array:
    """Return z / |z|^exponent for the rows z of Z (n, m); zero rows stay zero.

    >>> radial(np.array([[3.0, 4.0], [0.0, 0.0]]), 0.5).round(3)
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


def directed(Z: Array) -> tuple[Array, Array, Array]:
    """Return rows directed as those of Z, their lengths, and which are zero (of length 1 here).

    A row whose squares overflow or underflow is rescaled, the others stay as they are. The lengths
    are safe to divide by, and no NaN enters their gradient.
    """
    xp = namespace(Z)
    info = xp.finfo(Z.dtype)
    squares = _sum_of_squares(Z)
    risky = ~((squares > info.smallest_normal / info.eps) & (squares < info.max))
    if not is_numpy(Z) or risky.any():  # NumPy alone can tell for nothing that no row is
        largest = xp.max(xp.abs(Z), axis=1)
        Z = Z / xp.where(risky & (largest > 0), largest, xp.ones_like(largest))[:, None]
        squares = _sum_of_squares(Z)
    zero = squares == 0
    return Z, xp.sqrt(xp.where(zero, xp.ones_like(squares), squares)), zero


def _sum_of_squares(Z: Array) -> Array:
    with np.errstate(over="ignore", under="ignore"):
        return namespace(Z).vecdot(Z, Z)


def max_cosine(Z: Array, directions: Array) -> Array:
    """Return max_k cos(directions_k, z) for each row z of Z, -1 where z is zero.

    Z (n, m); directions (C, m) of length 1, in the backend and dtype of Z.

    >>> max_cosine(np.array([[3.0, 4.0], [0.0, 0.0]]), np.eye(2))
    array([ 0.8, -1. ])
    """
    xp = namespace(Z)
    Z, lengths, zero = directed(Z)
    best = _largest_product(Z, directions) / lengths
    return xp.where(zero, xp.full_like(best, NO_DIRECTION), best)


def _largest_product(Z: Array, directions: Array) -> Array:
    """Return the largest product of each row of Z with the directions, which may be millions."""
    xp = namespace(Z)
    first, *others = tiles(Z, directions)
    best = row_max(Z @ directions[first, :].T)
    for tile in others:
        best = xp.maximum(best, row_max(Z @ directions[tile, :].T))
    return best


def row_max(S: Array) -> Array:
    """Return the largest number of each row of S (n, C), or along axis 1 where it has more axes.

    >>> row_max(np.array([[1.0, 3.0], [2.0, 0.0]]))
    array([3., 2.])
    """
    if is_numpy(S) and S.ndim == 2 and S.shape[1] <= _SHORT:
        return np.ascontiguousarray(S.T).max(axis=0)
    return namespace(S).max(S, axis=1)


def tiles(Z: Array, directions: Array) -> list[slice]:
    """Return the runs of directions that the rows of Z are multiplied with; all in a trace.

    >>> tiles(np.zeros((1, 2)), np.zeros((TILE + 1, 2)))
    [slice(0, 8192, None), slice(8192, 8193, None)]
    """
    n = int(directions.shape[0])
    if n <= TILE or is_traced(Z):
        return [slice(0, n)]
    return [slice(start, min(start + TILE, n)) for start in range(0, n, TILE)]


def paired_cosines(Z: Array, directions: Array) -> Array:
    """Return the cosine of each row of Z (n, m) and its own direction (n, m), -1 of a zero row.

    >>> paired_cosines(np.array([[3.0, 4.0], [0.0, 0.0]]), np.eye(2))
    array([ 0.6, -1. ])
    """
    xp = namespace(Z)
    Z, lengths, zero = directed(Z)
    products = xp.vecdot(Z, directions) / lengths
    return xp.where(zero, xp.full_like(products, NO_DIRECTION), products)


def cosines(Z: Array, directions: Array) -> Array:
    """Return the cosines (n, C) of the rows of Z and of `directions`, -1 where a row of Z is zero.

    >>> cosines(np.array([[3.0, 4.0]]), np.eye(2))
    array([[0.6, 0.8]])
    """
    xp = namespace(Z)
    Z, lengths, zero = directed(Z)
    products = (Z @ directions.T) / lengths[:, None]
    return xp.where(zero[:, None], xp.full_like(products, NO_DIRECTION), products)


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
    weights = xp.exp(L - xp.max(L, axis=1)[:, None])
    return weights / xp.sum(weights, axis=1)[:, None]


def log_softmax(L: Array) -> Array:
    """Return log(softmax(L)) along the rows of the finite L (n, C).

    >>> log_softmax(np.array([[1e4, 1e4]])).round(4)
    array([[-0.6931, -0.6931]])
    """
    xp = namespace(L)
    L = L - xp.max(L, axis=1, keepdims=True)  # first, so that large logits cost no precision
    return L - xp.log(xp.sum(xp.exp(L), axis=1, keepdims=True))


def surplus(L: Array) -> Array:
    """Return softmax(L) - 1/C for the logits L (n, C), precise where the softmax is nearly uniform.

    With g = exp(L - max L) - 1 it is (g - mean g) / (C + sum g).

    >>> surplus(np.array([[0.0, 1e-12], [0.0, np.log(3.0)]]))
    array([[-2.5e-13,  2.5e-13],
           [-2.5e-01,  2.5e-01]])
    """
    xp = namespace(L)
    g = xp.expm1(L - xp.max(L, axis=1, keepdims=True))
    return (g - xp.mean(g, axis=1, keepdims=True)) / (L.shape[1] + xp.sum(g, axis=1, keepdims=True))


def descending(L: Array) -> Array:
    """Return the rows of L (n, C) sorted, the largest first.

    >>> descending(np.array([[1.0, 3.0, 2.0]]))
    array([[3., 2., 1.]])
    """
    return namespace(L).sort(L, axis=1, descending=True, stable=False)


# Sums and scatters


def principal_axes(scatter: Floats, n: int) -> tuple[Floats, Floats]:
    """Return the variances (r,), largest first, and all axes (m, m) of a scatter of n rows.

    Column j of the axes belongs to variance j; along the columns from r on the rows do not vary.
    That is where the variance is at most eps * max(m, sqrt(n)) times the largest (eps of float64):
    what rounding leaves of a sum of n products.

    >>> variances, axes = principal_axes(np.diag([0.0, 8.0]), n=2)
    >>> variances, abs(axes).tolist()
    (array([4.]), [[0.0, 1.0], [1.0, 0.0]])
    """
    values, vectors = np.linalg.eigh(scatter / n)
    values, vectors = values[::-1], vectors[:, ::-1]
    cut = np.finfo(np.float64).eps * max(len(values), np.sqrt(n)) * values[0]
    return values[values > max(cut, 0.0)], vectors


def inverse_of_triangle(L: Floats) -> Floats:
    """Return the inverse of a lower triangular L (m, m), by halves: a quarter of a general one.

    NumPy's products: SciPy's threads and NumPy's, taking turns on small matrices, wait for each
    other.

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
    """Return the point nearest to `point` that float32 holds exactly.

    Rows are moved by it before they are multiplied, and the small rest of `point` is seen to after.
    So rows that share a large offset lose no digits to it, in float32 either.
    """
    with np.errstate(over="ignore"):
        near = point.astype(np.float32).astype(np.float64)
    return np.where(np.isfinite(near), near, point)
