"""Many inputs at once: which are out of distribution, if a share `fdr` of those named may be wrong?

The false discovery rate is the expected share of in-distribution inputs among the discoveries (0
where there are none). Both procedures find the largest k with p_(k) <= level * k / m, p_(1) <= ...
<= p_(m), and name the k inputs.

Conformal p-values of a batch share their calibration set and so depend on each other. That they
depend positively (PRDS), which is what the first procedure needs, is shown in Bates, Candès, Lei,
Romano, Sesia: Testing for Outliers with Conformal p-values, Annals of Statistics 2023; for the
second see Marandon, Lei, Mary, Roquain: Adaptive Novelty Detection with False Discovery Rate
Guarantee, Annals of Statistics 2024.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica.arrays import to_numpy
from typica.checks import check_share
from typica.errors import InputError, border
from typica.written_numbers import Level

ROUNDING = 1 + 1e-12  # lets p-values that equal their limit in exact arithmetic count as equal


@border
def benjamini_hochberg(p_values: Any, fdr: Level = 0.1) -> NDArray[np.bool_]:
    """Return True for each discovery, by Benjamini and Hochberg 1995: level = fdr.

    The false discovery rate is at most fdr * (share of in-distribution inputs), if each p-value of
    such an input is at most t with probability at most t, and they are independent or positively
    dependent (PRDS). Marginal conformal p-values from one calibration set are, if the calibration
    inputs and the in-distribution inputs of the batch are independent and identically distributed;
    ties do no harm.

    >>> benjamini_hochberg([0.01, 0.8, 0.03, 0.5], fdr=0.1)
    array([ True, False,  True, False])
    """
    p = _check(p_values)
    return _step_up(p, float(check_share(fdr, "fdr")))


@border
def storey(p_values: Any, fdr: Level = 0.1, lam: Level = 0.5) -> NDArray[np.bool_]:
    """Return True for each discovery, by Storey's variant: level = fdr / π₀.

    π₀ = (1 + #{p >= lam}) / (m (1 - lam))

    π₀ estimates the share of in-distribution inputs, so that more is found where that is small. The
    false discovery rate is at most `fdr` if the p-values of in-distribution inputs are independent;
    and for marginal conformal p-values from one set of n calibration scores if lam = K / (n + 1)
    with a whole number K, which `Detector.discoveries` makes sure of.

    >>> storey([0.01, 0.02, 0.03, 0.04, 0.06, 0.07, 0.9], fdr=0.05)
    array([ True,  True,  True,  True,  True,  True, False])
    >>> benjamini_hochberg([0.01, 0.02, 0.03, 0.04, 0.06, 0.07, 0.9], fdr=0.05).any()
    np.False_
    """
    p = _check(p_values)
    level, share = (check_share(*given) for given in ((fdr, "fdr"), (lam, "lam")))
    # The same division that makes conformal p-values, so that K / (n + 1) is not below itself.
    above = 1 + int(np.count_nonzero(p >= share.numerator / share.denominator))
    return _step_up(p, float(level * (1 - share) * len(p) / above))


def _check(p_values: Any) -> NDArray[np.float64]:
    p = np.atleast_1d(to_numpy(p_values))
    if p.ndim != 1 or p.dtype.kind not in "fiub":
        raise InputError(
            f"p-values of shape {p.shape} and type {p.dtype}; pass a 1-D array of numbers."
        )
    if not bool(np.all((p >= 0) & (p <= 1))):  # NaN compares false
        raise InputError("a p-value is NaN or outside 0 to 1; pass p-values.")
    return p.astype(np.float64)


def _step_up(p: NDArray[np.float64], level: float) -> NDArray[np.bool_]:
    m = len(p)
    ordered = np.sort(p)
    enough = np.flatnonzero(ordered <= level * ROUNDING / max(m, 1) * np.arange(1, m + 1))
    limit = ordered[enough[-1]] if len(enough) else -1.0
    return np.asarray(p <= limit)
