"""Cosines between rows and directions: all of them, the largest of each row, and row by row.

They take arrays of any backend, keep the dtype, and never write to their input.
"""

from __future__ import annotations

import functools

from typica.arrays import Array, is_traced, namespace
from typica.largest import row_max
from typica.linalg import directed

NO_DIRECTION = -1.0  # the cosine of a zero row: as far from every direction as a cosine can be
TILE = 8192  # directions that a block of rows is multiplied with at once


def cosines(Z: Array, directions: Array) -> Array:
    """Return the matrix (n, C) of cosines between rows of Z and of `directions`, -1 for a zero row.

    >>> import numpy as np
    >>> cosines(np.array([[3.0, 4.0]]), np.eye(2))
    array([[0.6, 0.8]])
    """
    Z, lengths, zero = directed(Z)
    return undirected_marked((Z @ directions.T) / lengths[:, None], zero)


def paired_cosines(Z: Array, directions: Array) -> Array:
    """Return the cosines (n,) of two matrices row by row, -1 where the row of Z is zero.

    >>> import numpy as np
    >>> paired_cosines(np.array([[3.0, 4.0], [0.0, 0.0]]), np.eye(2))
    array([ 0.6, -1. ])
    """
    Z, lengths, zero = directed(Z)
    return undirected_marked(namespace(Z).vecdot(Z, directions) / lengths, zero)


def max_cosine(Z: Array, directions: Array) -> Array:
    """Return the row maxima (n,) of the matrix of `cosines`, -1 for a zero row.

    Z (n, m); directions (C, m) of length 1, in the backend and dtype of Z.

    >>> import numpy as np
    >>> max_cosine(np.array([[3.0, 4.0], [0.0, 0.0]]), np.eye(2))
    array([ 0.8, -1. ])
    """
    Z, lengths, zero = directed(Z)
    return undirected_marked(_max_of_product(Z, directions) / lengths, zero)


def undirected_marked(products: Array, zero: Array | None) -> Array:
    """Return products (n,) or (n, C) with NO_DIRECTION in the zero rows; None if there are none.

    >>> import numpy as np
    >>> undirected_marked(np.array([0.5, 0.0]), np.array([False, True]))
    array([ 0.5, -1. ])
    """
    if zero is None:
        return products
    xp = namespace(products)
    rows = zero if products.ndim == 1 else zero[:, None]
    return xp.where(rows, xp.full_like(products, NO_DIRECTION), products)


def _max_of_product(Z: Array, directions: Array) -> Array:
    """Return the row maxima (n,) of Z @ directions.T, by tiles: there may be millions."""
    parts = tiles(Z, directions)
    if len(parts) == 1:
        return row_max(Z @ directions.T)
    largest = (row_max(Z @ directions[part, :].T) for part in parts)
    return functools.reduce(namespace(Z).maximum, largest)


def tiles(Z: Array, directions: Array) -> list[slice]:
    """Return the slices by which the matrix product Z @ directions.T is tiled; one in a trace.

    >>> import numpy as np
    >>> tiles(np.zeros((1, 2)), np.zeros((TILE + 1, 2)))
    [slice(0, 8192, None), slice(8192, 8193, None)]
    """
    n = int(directions.shape[0])
    if n <= TILE or is_traced(Z):
        return [slice(0, n)]
    return [slice(start, min(start + TILE, n)) for start in range(0, n, TILE)]
