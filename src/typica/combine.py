"""Combine several p-values of the same input into one.

    fisher       T = -2 sum_i ln p_i, chi-squared with 2m degrees of freedom
    stouffer     Z = sum_i Phi^-1(p_i) / sqrt(m), standard normal
    simes        min_i m p_(i) / i, p_(1) <= ... <= p_(m)
    twice_mean   2 mean_i p_i, at most 1

Twice the mean is a p-value whatever the dependence of the m p-values (Rüschendorf 1982; Vovk, Wang:
Combining p-values via averaging, Biometrika 2020), Simes' if they are independent or depend on each
other positively (Simes, Biometrika 1986; Sarkar, Annals of Statistics 1998). Fisher's and
Stouffer's take them to be independent; where p-values of known inputs are given, their mean and
variance there take the place of the independent ones: T / c with k degrees of freedom, c = var /
(2 mean) and k = 2 mean² / var (Brown, Biometrics 1975), and Z over its deviation (Strube,
Psychological Bulletin 1985). Both corrections are approximations. A harmonic mean without
correction is not valid, and is not here.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, ndtr, ndtri

from typica.arrays import Array, like, namespace, to_numpy
from typica.errors import InputError, border

Floats = NDArray[np.float64]
COMBINATIONS: Final = ("fisher", "stouffer", "simes", "twice_mean")
_LEAST = float(np.finfo(np.float64).tiny)
_MOST = 1 - 2**-53  # beyond this Stouffer's deviates are infinite


class Null(NamedTuple):
    """Mean and variance, over known inputs, of Fisher's T or of Stouffer's sum of deviates."""

    mean: float
    variance: float

    @classmethod
    def of(cls, values: Floats) -> Null | None:
        """Return mean and variance of the finite statistics; None if these do not vary."""
        finite = values[np.isfinite(values)]
        if len(finite) < 2 or not finite.var() > 0:
            return None
        return cls(float(finite.mean()), float(finite.var()))


@border
def combine_p_values(p_values: Any, how: str = "twice_mean", known: Any = None) -> Floats:
    """Return one p-value per row of p_values (n, m).

    Parameters
    ----------
    p_values
        m p-values of each of n inputs, (n, m).
    how
        One of `COMBINATIONS`.
    known
        p-values (k, m) of known inputs, by which Fisher's and Stouffer's are corrected for
        dependence.

    >>> P = [[0.04, 0.03, 0.5], [0.9, 0.2, 0.6]]
    >>> for how in COMBINATIONS:
    ...     print(how, combine_p_values(P, how).round(3))
    fisher [0.022 0.616]
    stouffer [0.018 0.656]
    simes [0.06 0.6 ]
    twice_mean [0.38 1.  ]
    """
    check_combination(how)
    P = _check(p_values)
    if known is None:
        return p_of(_statistic(P, how), how, P.shape[1], None)
    K = _check(known)
    if K.shape[1] != P.shape[1]:
        raise InputError(
            f"{P.shape[1]} p-values per row, {K.shape[1]} per known input; pass as many of both."
        )
    null = Null.of(raw_sums(_statistic(K, how), how, K.shape[1]))
    return p_of(_statistic(P, how), how, P.shape[1], null)


def check_combination(how: Any) -> None:
    """Raise unless `how` names a combination."""
    if how not in COMBINATIONS:
        raise InputError(f"how={how!r} is unknown; choose one of {', '.join(COMBINATIONS)}.")


def of_logs(L: Array, how: str) -> Array:
    """Return the statistic (n,) of log p-values L (n, m), higher = more typical, of any backend.

    fisher: -T; simes: the log of the p-value; twice_mean: the p-value, which may exceed 1.
    """
    xp = namespace(L)
    m = int(L.shape[1])
    if how == "fisher":
        return 2 * xp.sum(L, axis=1)
    if how == "twice_mean":
        return 2 * xp.mean(xp.exp(L), axis=1)
    places = np.array([math.log(m / (i + 1)) for i in range(m)])
    return xp.min(xp.sort(L, axis=1) + like(places, L), axis=1)


def of_deviates(N: Array) -> Array:
    """Return Stouffer's Z (n,) of normal deviates (n, m), of any backend."""
    return namespace(N).sum(N, axis=1) / math.sqrt(int(N.shape[1]))


def raw_sums(statistics: Floats, how: str, m: int) -> Floats:
    """Return what `Null` describes: T, or the sum of deviates, of statistics of m p-values."""
    if how == "stouffer":
        return statistics * math.sqrt(m)
    return -statistics


def p_of(statistics: Floats, how: str, m: int, null: Null | None) -> Floats:
    """Return the p-values (n,) of statistics of m p-values each."""
    if how == "simes":
        return np.minimum(np.exp(statistics), 1.0)
    if how == "twice_mean":
        return np.minimum(statistics, 1.0)
    null = null or Null(*((2.0 * m, 4.0 * m) if how == "fisher" else (0.0, float(m))))
    sums = raw_sums(statistics, how, m)
    if how == "stouffer":
        return np.asarray(ndtr((sums - null.mean) / math.sqrt(null.variance)))
    scale = null.variance / (2 * null.mean)
    return np.asarray(chdtrc(2 * null.mean**2 / null.variance, sums / scale))


def _statistic(P: Floats, how: str) -> Floats:
    if how == "stouffer":
        return np.asarray(of_deviates(ndtri(np.clip(P, _LEAST, _MOST))))
    return np.asarray(of_logs(np.log(np.maximum(P, _LEAST)), how))


def _check(p_values: Any) -> Floats:
    P = to_numpy(p_values)
    if P.ndim != 2 or P.dtype.kind not in "fiub" or not P.shape[1]:
        raise InputError(
            f"p-values of shape {P.shape} and type {P.dtype}; pass numbers (n, m), one row per "
            "input."
        )
    if not bool(np.all((P >= 0) & (P <= 1))):  # NaN compares false
        raise InputError("a p-value is NaN or outside 0 to 1; pass p-values.")
    return P.astype(np.float64)
