"""Directions and lengths of rows, at any scale, for any backend."""

from __future__ import annotations

import numpy as np

from typica.arrays import Array, is_numpy, namespace


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
    Z = (
        Z / xp.where(zero, one, largest)[:, None]
    )  # first, so that squares neither overflow nor underflow
    return Z / xp.sqrt(xp.where(zero, one, xp.vecdot(Z, Z)))[:, None], zero
