"""How far to shrink a covariance towards a multiple of the identity.

    S_shrunk = (1 - d) S + d tr(S)/m I

With d = 0 it stays what it is; any d > 0 gives every direction a variance, even those in which the
training rows do not vary. d is a number, or estimated from the rows:

    "oas"           Chen, Wiesel, Eldar, Hero: Shrinkage Algorithms for MMSE Covariance Estimation,
                    IEEE Transactions on Signal Processing 2010. Needs S and n alone, so it merges.
    "ledoit_wolf"   Ledoit, Wolf: A Well-Conditioned Estimator for Large-Dimensional Covariance
                    Matrices, Journal of Multivariate Analysis 2004. Needs the sum of |z - mu|^4
                    about the class means too, which takes a second pass over all rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from typica.arrays import Labels, Rows, row_blocks
from typica.checks import Parameter, is_number
from typica.errors import InputError
from typica.labels import encode_labels
from typica.linalg import Floats
from typica.moments import Moments

ESTIMATED = ("ledoit_wolf", "oas")


def _is_shrinkage(value: Any) -> bool:
    if value is None or isinstance(value, str):
        return value is None or value in ESTIMATED
    return is_number(value) and bool(0 <= value <= 1)


SHRINKAGE = Parameter(
    _is_shrinkage,
    "a number from 0 to 1, 'ledoit_wolf', 'oas', or None",
    "{name}={value!r} is not a shrinkage; pass a number from 0 to 1, 'ledoit_wolf', 'oas' or None.",
)


def oas(S: Floats, n: int) -> float:
    """Return the shrinkage of a covariance S (m, m) of n rows that suits Gaussian rows.

    >>> round(oas(np.diag([3.0, 1.0]), n=40), 3)
    0.317
    """
    m = len(S)
    S = np.ldexp(S, -_exponent(S))  # no square overflows, and no digit changes
    mean_square = float(np.mean(S**2))
    square = float(np.trace(S) / m) ** 2
    apart = (n + 1) * (mean_square - square / m)
    return 1.0 if apart <= 0 else min((mean_square + square) / apart, 1.0)


def ledoit_wolf(S: Floats, n: int, fourth: float) -> float:
    """Return the shrinkage of a covariance S (m, m) of n rows whose |z - mu|^4 add up to `fourth`.

    >>> rows = np.array([[3.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> round(ledoit_wolf(rows.T @ rows / 4, n=4, fourth=2 * 81 + 2 * 1), 3)
    0.641
    """
    exponent = _exponent(S)
    S, fourth = np.ldexp(S, -exponent), float(np.ldexp(fourth, -2 * exponent))
    squares = float(np.sum(S**2))
    apart = squares - float(np.trace(S)) ** 2 / len(S)
    noise = max(fourth / n - squares, 0.0) / n
    return 0.0 if apart <= 0 else min(noise / apart, 1.0)


def fourth_powers(Z: Rows, labels: Labels | None, moments: Moments) -> float:
    """Return the sum of |z - mu_class|^4 over the rows of Z (n, m), in float64."""
    _, codes = encode_labels(labels, len(Z))
    means = moments.means
    total = 0.0
    for block in row_blocks(len(Z), Z.shape[1], itemsize=8):
        D = Z[block] - means[codes[block]]
        with np.errstate(over="ignore"):
            total += float(np.sum(np.vecdot(D, D) ** 2))
    if not np.isfinite(total):
        raise InputError("the features are so large that fourth powers overflow; rescale them.")
    return total


def _exponent(S: Floats) -> int:
    """Return the power of two above the largest number of S."""
    return int(np.frexp(np.abs(S).max())[1])
