"""Ranks with a guarantee, and how many calibration inputs they need."""

from __future__ import annotations

import math

from scipy.special import betainc

from typica.arrays import AnyArray
from typica.checks import check_share
from typica.errors import border
from typica.written_numbers import Level


@border
def guaranteed_rank(n: int, alpha: Level, confidence: Level | None = None) -> int:
    """Return the rank k of the threshold among n calibration scores; 0 if n is too small.

    Without `confidence` k = floor((n + 1) alpha). With it, k is the largest for which the
    false-alarm rate, at most Beta(k, n + 1 - k) distributed over the calibration draw, is at most
    alpha with that probability: P(Beta(k, n + 1 - k) <= alpha) = P(Binomial(n, alpha) >= k) >=
    confidence.

    >>> guaranteed_rank(1000, 0.05), guaranteed_rank(1000, 0.05, confidence=0.99)
    (50, 35)
    """
    share = check_share(alpha, "alpha", zero=True)
    if confidence is None:
        return math.floor((n + 1) * share)
    wanted = float(check_share(confidence, "confidence"))
    good, bad = 0, n + 1
    while bad - good > 1:
        k = (good + bad) // 2
        good, bad = (k, bad) if betainc(k, n + 1 - k, float(share)) >= wanted else (good, k)
    return good


def threshold_at(rank: int, ordered: AnyArray) -> float:
    """Return the score of that rank, from 1, among ascending scores; -inf for rank 0.

    >>> import numpy as np
    >>> threshold_at(2, np.array([1.0, 3.0, 4.0])), threshold_at(0, np.array([1.0]))
    (3.0, -inf)
    """
    return float(ordered[rank - 1]) if rank > 0 else -math.inf


def ties_at(rank: int, ordered: AnyArray) -> int:
    """Return how many ascending scores equal the one of that rank, if these ties keep too much.

    They do if fewer than rank / 2 - 1 scores are below the threshold, or if all scores are equal;
    else 0 is returned.

    >>> import numpy as np
    >>> ties_at(4, np.array([1.0, 1.0, 1.0, 1.0, 2.0])), ties_at(4, np.array([1.0, 2.0, 3.0, 3.0]))
    (4, 0)
    """
    if rank == 0 or ordered[rank - 1] == -math.inf:
        return 0
    threshold = ordered[rank - 1]
    below = int(ordered.searchsorted(threshold))
    ties = int(ordered.searchsorted(threshold, side="right")) - below
    return ties if 2 * (below + 1) < rank or ties == len(ordered) > 1 else 0


@border
def calibration_size(alpha: Level, confidence: Level | None = None) -> int:
    """Return how many calibration inputs are needed to reject anything at these levels.

    >>> calibration_size(0.05), calibration_size(0.05, confidence=0.99)
    (19, 90)
    """
    share = check_share(alpha, "alpha")
    if confidence is None:
        return math.ceil(1 / share) - 1
    wanted = check_share(confidence, "confidence")
    n = max(1, math.ceil(math.log1p(-wanted) / math.log1p(-share)))
    while not guaranteed_rank(n, share, wanted):
        n += 1
    while n > 1 and guaranteed_rank(n - 1, share, wanted):
        n -= 1
    return n
