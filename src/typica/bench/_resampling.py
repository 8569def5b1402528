"""How far a mean AUROC may be off: unknowns are drawn again, and the rows behind each AUROC too.

With w_i copies of known row i and v_j of unknown row j, 1 - AUROC is the mean of w_i v_j e_ij over
all pairs, where e_ij is 1 for a pair in the wrong order, 1/2 for a tie, else 0. Here it is the
product of what each side does alone,

    1 - AUROC* = (mean of w_i e_i) (mean of v_j e_j) / e,

with e_i the mean of e_ij over the other side, from scores that are sorted once, and e the mean of
all, and at most 1, which the product alone would exceed where most pairs are in the wrong order.
That is exact while one side stays as it is, right to first order for both, and takes two matrix
products: nothing is sorted or fitted again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray

RESAMPLES = 2000
BLOCK = 1 << 22  # counts that are held as floats at a time
Floats = NDArray[np.float64]
Counts = NDArray[np.uint8]


def row_draws(groups: AnyArray, rng: np.random.Generator, resamples: int = RESAMPLES) -> Counts:
    """Return how often each row is drawn (resamples, rows), with replacement.

    As many rows of each group are drawn as there are.

    >>> row_draws(np.array(["a", "b", "b", "b"]), np.random.default_rng(0), resamples=2).sum(axis=1)
    array([4, 4], dtype=uint64)
    """
    counts = np.empty((resamples, len(groups)), dtype=np.uint8)
    for group in np.unique(groups):
        places = np.flatnonzero(groups == group)
        n = len(places)
        drawn = rng.integers(n, size=(resamples, n)) + n * np.arange(resamples)[:, None]
        found = np.bincount(drawn.ravel(), minlength=resamples * n).reshape(resamples, n)
        counts[:, places] = np.minimum(found, np.iinfo(np.uint8).max)
    return counts


def unknown_draws(n: int, rng: np.random.Generator, resamples: int = RESAMPLES) -> Floats:
    """Return the weight of each of n unknowns (resamples, n) in a mean over n - 1 that are drawn.

    One less than there are: n drawn values vary by (n - 1) / n of what n other unknowns would.
    """
    drawn = max(n - 1, 1)
    return rng.multinomial(drawn, np.full(n, 1 / n), size=resamples) / drawn


def redrawn_aurocs(
    known: Sequence[AnyArray],
    unknown: Sequence[AnyArray],
    known_draws: Counts,
    unknown_draws: Counts,
) -> Floats:
    """Return the AUROC of each detector on each draw of the rows, (resamples, detectors).

    known, unknown: scores of the same rows by each detector, higher = more typical; draws:
    (resamples, rows).

    >>> ones = np.ones((1, 2), dtype=np.uint8)
    >>> redrawn_aurocs([np.array([1.0, 3.0])], [np.array([2.0, 0.0])], ones, ones)
    array([[0.75]])
    """
    sides = [_errors(s, u) for s, u in zip(known, unknown, strict=True)]
    means = np.array([of_known.mean() for of_known, _ in sides])
    product: Floats = np.ones((len(known_draws), len(sides)))
    product *= _weighted_means(known_draws, np.stack([e for e, _ in sides], axis=1))
    product *= _weighted_means(unknown_draws, np.stack([e for _, e in sides], axis=1))
    # Without a single error there is none among drawn rows either.
    wrong: Floats = np.divide(product, means, out=np.zeros_like(product), where=means > 0)
    return 1 - np.minimum(wrong, 1)


def _weighted_means(draws: Counts, values: Floats) -> Floats:
    """Return the mean of each column of `values` (rows, k) under each draw, block by block."""
    step = max(1, BLOCK // draws.shape[1])
    means = []
    for start in range(0, len(draws), step):
        block = draws[start : start + step].astype(np.float64)
        means.append(block @ values / block.sum(axis=1, keepdims=True))
    return np.concatenate(means)


def _errors(known: AnyArray, unknown: AnyArray) -> tuple[Floats, Floats]:
    """Return which share of the other side each row is in the wrong order with; a tie is half."""
    return 1 - _below(known, unknown), _below(unknown, known)


def _below(scores: AnyArray, among: AnyArray) -> Floats:
    """Return, for AUROCs to resample, the share of the others below each score; ties are half."""
    ordered = np.sort(among)
    below = np.searchsorted(ordered, scores, side="left")
    up_to = np.searchsorted(ordered, scores, side="right")
    twice = below + up_to
    return np.asarray(twice / (2 * len(among)), dtype=np.float64)
