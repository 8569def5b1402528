"""How far sums may be off by rounding, whatever the order in which a BLAS adds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from typica import sums


def sum_error(n: int, dtype: type) -> float:
    """Return how far a sum of n products may be off, as a share of the sum of their magnitudes.

    However they are added, n roundings of at most half an eps each, as likely up as down, exceed
    6 sqrt(n) of them once in 10 million sums (Higham and Mary 2019); n of them would be certain.
    """
    return float(6 * np.sqrt(n) * np.finfo(dtype).eps / 2)


def products_row_by_row(block: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return what `sums.products` does, added row after row: the least precise order."""
    together = len(block) if block.dtype == np.float64 else sums._ROWS_PER_PRODUCT
    total = np.zeros((block.shape[1], block.shape[1]))
    for start in range(0, len(block), together):
        part = np.zeros_like(total, dtype=block.dtype)
        for row in block[start : start + together]:
            part += np.outer(row, row)
        total += part
    return total
