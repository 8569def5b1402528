"""KNN's k from a grid, without a look at any OOD set: classes of the training data play the unknown.

Some training rows are set aside. Each of a few classes in turn is taken out of the bank; by their
distance to the k-th nearest row of what is left, the rows of that class that were set aside should
be told from those of the others. The k with the largest mean AUROC is taken, the smallest of
equals. (The paper reports the best of its grid on the OOD sets themselves, which favours KNN.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica.arrays import as_floating
from typica.errors import InputError
from typica.linalg import units
from typica.metrics import evaluate

CLASSES = 10  # at most so many play the unknown
ROWS = 1000  # at most so many are set aside
BLOCK = 64  # of them are compared with the bank at once


def choose_k(
    train: NDArray[Any], labels: NDArray[Any], grid: Sequence[int], seed: int = 0
) -> tuple[int, dict[int, float]]:
    """Return the best k of the grid, and the mean AUROC of each that the training rows suffice for.

    >>> rng = np.random.default_rng(0)
    >>> labels = np.arange(300) % 3
    >>> k, aurocs = choose_k(np.eye(3)[labels] + rng.normal(scale=0.1, size=(300, 3)), labels, [5, 50, 5000])
    >>> k, sorted(aurocs)
    (5, [5, 50])
    """
    rng = np.random.default_rng(seed)
    classes = np.unique(labels)
    if len(classes) < 3:
        raise InputError(
            f"KNN: {len(classes)} classes; choosing k takes at least 3, or pass k as a number."
        )
    chosen = np.sort(rng.choice(classes, min(CLASSES, len(classes)), replace=False))
    aside = np.zeros(len(train), dtype=bool)
    aside[rng.choice(len(train), min(ROWS, len(train) // 5), replace=False)] = True
    bank, _ = units(as_floating(np.asarray(train[~aside])))
    queries, _ = units(as_floating(np.asarray(train[aside])))
    known = labels[~aside]
    fewest = len(bank) - max(int((known == left).sum()) for left in chosen)
    usable = sorted({int(k) for k in grid if k <= fewest})
    if not usable:
        raise InputError(
            f"KNN: no k of the grid {list(grid)} is at most {fewest}, the rows of the smallest bank."
        )
    keep = {left: np.flatnonzero(known != left) for left in chosen.tolist()}
    cosines = {left: np.empty((len(queries), len(usable))) for left in keep}
    for start in range(0, len(queries), BLOCK):
        products = queries[start : start + BLOCK] @ bank.T
        for left, rows in keep.items():
            # Of unit vectors the k-th nearest has the k-th largest product.
            places = len(rows) - np.array(usable)
            cosines[left][start : start + BLOCK] = np.partition(products[:, rows], places, axis=1)[
                :, places
            ]
    aurocs: dict[int, list[float]] = {k: [] for k in usable}
    for left, scores in cosines.items():
        unknown = labels[aside] == left
        if unknown.any() and not unknown.all():
            for column, k in enumerate(usable):
                aurocs[k].append(evaluate(scores[~unknown, column], scores[unknown, column]).auroc)
    means = {k: float(np.mean(values)) for k, values in aurocs.items() if values}
    if not means:
        raise InputError("KNN: too few training rows to choose k on; pass k as a number.")
    return max(means, key=lambda k: (means[k], -k)), means
