"""From scores to a threshold with a stated false-alarm rate.

With n held-out in-distribution scores the threshold is the k-th smallest, k = floor((n + 1)(1 -
tpr)). A new in-distribution input then falls below it with probability at most k / (n + 1) <= 1 -
tpr, whatever the network and the detector, if it is exchangeable with the held-out inputs. k = 0
means that n is too small for anything to be rejected; the threshold is then minus infinity.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica.errors import CalibrationWarning, InputError, border
from typica.exact import exact
from typica.store import storable

QUANTILES = 2048  # how many order statistics are kept for the percentiles of `explain`


def check_tpr(tpr: float) -> Fraction:
    """Return `tpr` as the exact fraction that its decimal notation says (0.95 is 19/20, not its float)."""
    share = exact(tpr)
    if not 0 < share <= 1:
        raise InputError(f"tpr={tpr!r} is not a share; pass a number above 0 and at most 1.")
    return share


def rank(n: int, tpr: float) -> int:
    """Return k = floor((n + 1)(1 - tpr)) in exact arithmetic.

    >>> rank(9, 0.9), math.floor((9 + 1) * (1 - 0.9))
    (1, 0)
    """
    return math.floor((n + 1) * (1 - check_tpr(tpr)))


@storable("calibration")
@dataclass(frozen=True)
class Calibration:
    """How a threshold came about: from `n` scores of `source`, as the `k`-th smallest, to keep `tpr` of ID."""

    threshold: float
    tpr: float
    n: int
    k: int
    source: str
    quantiles: NDArray[np.float64]

    def percentile(self, scores: NDArray[Any]) -> NDArray[np.float64]:
        """Return the percentage of the calibration scores at or below each of `scores`.

        >>> threshold(np.arange(100.0)).percentile(np.array([-1.0, 49.0, 1e9]))
        array([  0.,  50., 100.])
        """
        return 100.0 * np.searchsorted(self.quantiles, scores, side="right") / len(self.quantiles)

    def state(self) -> dict[str, Any]:
        """Return what is to be stored."""
        return asdict(self)

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Calibration:
        """Rebuild the record from what was stored."""
        return cls(**state)


@border
def threshold(scores: NDArray[Any], tpr: float = 0.95, *, source: str = "held-out") -> Calibration:
    """Return the calibration that keeps at least `tpr` of in-distribution inputs, from their scores.

    >>> threshold(np.arange(1.0, 100.0), tpr=0.95).threshold
    5.0
    """
    share = check_tpr(tpr)
    ordered = np.sort(np.asarray(scores, dtype=np.float64))
    n = len(ordered)
    if n == 0 or np.isnan(ordered[-1]):
        raise InputError(f"{'no scores' if n == 0 else 'a score is NaN'}; pass held-out ID inputs.")
    k = rank(n, tpr)
    if k == 0 and share < 1:
        need = math.ceil(1 / (1 - share)) - 1
        warnings.warn(
            f"{n} inputs are too few to reject anything at tpr={tpr}; the threshold is -inf. "
            f"Pass at least {need} held-out inputs, or a smaller tpr.",
            CalibrationWarning,
            stacklevel=3,
        )
    # Order statistics evenly spread over all n; all of them where there are few.
    kept = (
        ordered if n <= QUANTILES else ordered[np.linspace(0, n - 1, QUANTILES).round().astype(int)]
    )
    return Calibration(
        threshold=float(ordered[k - 1]) if k else -math.inf,
        tpr=float(tpr),
        n=n,
        k=k,
        source=source,
        quantiles=kept,
    )
