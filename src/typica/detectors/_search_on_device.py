"""The k-th nearest row where rows lie on a device that NumPy does not reach."""

from __future__ import annotations

from typica.arrays import Array, namespace
from typica.largest import places_of_largest

ROWS = 2**14  # multiplied at once


def kth_by_product(Q: Array, rows: Array, k: int) -> Array:
    """Return which of the unit rows is the k-th nearest to each unit row of Q (n, m).

    For devices that NumPy does not reach, in the backend of both. Rows within rounding of the k-th
    product may change places with it.
    """
    xp = namespace(Q)
    values: Array = None
    index: Array = None
    for start in range(0, rows.shape[0], ROWS):
        S = Q @ rows[start : min(start + ROWS, rows.shape[0]), :].T
        found = places_of_largest(S, min(k, S.shape[1]))
        if values is None:
            values, index = _at(S, found), found + start
            continue
        both = xp.concat([values, _at(S, found)], axis=1)
        places = xp.concat([index, found + start], axis=1)
        best = places_of_largest(both, min(k, both.shape[1]))
        values, index = _at(both, best), _at(places, best)
    return index[:, k - 1]


def _at(S: Array, places: Array) -> Array:
    """Return what a search has for each query at its places (n, k) of S."""
    xp = namespace(S)
    if hasattr(xp, "gather"):  # which torch.export traces for any number of rows
        return xp.gather(S, 1, places)
    return xp.take_along_axis(S, places, axis=1)
