"""Conformal p-values: the rank of a score among calibration scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray
from typica.calibration._scores import check_scores, in_dtype
from typica.errors import border


@border
def p_values(
    scores: Any, calibration: Any, rng: np.random.Generator | None = None
) -> NDArray[np.float64]:
    """Return the conformal p-values (1 + #{<=}) / (n + 1) of scores among n calibration scores.

    rng: randomise, (#{<} + U (1 + #{=})) / (n + 1) with U uniform, so that ties cost nothing.

    >>> p_values([0.5, 2.0, 9.0], [1.0, 2.0, 3.0])
    array([0.25, 0.75, 1.  ])
    """
    ordered = np.sort(check_scores(calibration))
    checked = check_scores(scores)
    return p_values_among(in_dtype(ordered, checked.dtype), checked, rng)


def p_values_among(
    ordered: AnyArray, scores: AnyArray, rng: np.random.Generator | None = None
) -> NDArray[np.float64]:
    """Return the p-values of scores among ascending ones of the same dtype; see `p_values`."""
    steps = len(ordered) + 1
    at_most = np.searchsorted(ordered, scores, side="right") + 1
    if rng is None:
        return np.asarray(at_most / steps)
    below = np.searchsorted(ordered, scores, side="left")
    uniform = 1 - rng.random(len(scores))
    return np.asarray((below + uniform * (at_most - below)) / steps)
