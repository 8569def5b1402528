"""Percentiles of training activations, for the rectifiers that cut activations at them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from typica.arrays import Rows, as_floating, check_rows

SAMPLE = 2**25  # the most activations that are sorted; 50,000 rows of 512 features are fewer


def percentiles(Z: Rows, shares: list[float], axis: int | None = None) -> NDArray[np.float64]:
    """Return NumPy's percentiles of the activations Z (n, m), all together or by feature (axis=0).

    Exact for up to `SAMPLE` activations; of more, as many whole rows as hold that many are drawn at
    random, always the same ones. All rows are checked to be finite.

    >>> percentiles(np.arange(11.0)[:, None], [90])
    array([9.])
    """
    check_rows(Z)
    rows = max(1, SAMPLE // Z.shape[1])
    if len(Z) > rows:
        Z = Z[np.sort(np.random.default_rng(0).choice(len(Z), rows, replace=False))]
    # A copy that may be reordered, so that the percentile needs no second one.
    work = np.array(as_floating(Z))
    found = np.percentile(work, shares, axis=axis, overwrite_input=True)
    return np.asarray(found, dtype=np.float64)
