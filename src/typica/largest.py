"""The largest numbers of each row: what they are, where they are, their mean; rows in order.

For arrays of any backend.
"""

from __future__ import annotations

import numpy as np

from typica.arrays import Array, is_numpy, namespace

_SHORT = 16  # columns of rows that NumPy reduces faster when they stand side by side


def row_max(S: Array) -> Array:
    """Return the largest number of each row of S (n, C), or along axis 1 where it has more axes.

    >>> row_max(np.array([[1.0, 3.0], [2.0, 0.0]]))
    array([3., 2.])
    """
    if is_numpy(S) and S.ndim == 2 and S.shape[1] <= _SHORT:
        return np.ascontiguousarray(S.T).max(axis=0)
    return namespace(S).max(S, axis=1)


def k_largest(P: Array, k: int) -> Array:
    """Return the k largest numbers of each row of P (n, m), in any order.

    >>> sorted(k_largest(np.array([[5.0, 1.0, 7.0]]), 2)[0].tolist())
    [5.0, 7.0]
    """
    first = P.shape[1] - k
    ordered = np.partition(P, first, axis=1) if is_numpy(P) else namespace(P).sort(P, axis=1)
    return ordered[:, first:]


def places_of_largest(S: Array, k: int) -> Array:
    """Return where the k largest numbers of each row of S (n, m) are, the largest first.

    >>> places_of_largest(np.array([[5.0, 1.0, 7.0]]), 2).tolist()
    [[2, 0]]
    """
    xp = namespace(S)
    if hasattr(xp, "topk"):
        return xp.topk(S, k, dim=1).indices
    return xp.argsort(S, axis=1, descending=True)[:, :k]


def mean_of_largest(S: Array, k: int) -> Array:
    """Return the mean of the k largest numbers of each row of S (n, m).

    >>> mean_of_largest(np.array([[1.0, 4.0, 2.0]]), k=2)
    array([3.])
    """
    xp = namespace(S)
    largest = xp.topk(S, k, dim=1).values if hasattr(xp, "topk") else k_largest(S, k)
    return xp.mean(largest, axis=1)


def descending(L: Array) -> Array:
    """Return the rows of L (n, C) sorted, the largest first.

    >>> descending(np.array([[1.0, 3.0, 2.0]]))
    array([[3., 2., 1.]])
    """
    return namespace(L).sort(L, axis=1, descending=True, stable=False)
