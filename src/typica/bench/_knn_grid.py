"""KNN's k from a grid, without looking at any OOD set: training classes play the unknown.

Some training rows are set aside. A few classes are left out of the other rows, one at a time. The
distance to the k-th nearest remaining row should then distinguish those rows set aside that are of
the class left out from the others. The k with the largest mean AUROC is taken, the smallest of
equals. (The paper reports the best of its grid on the OOD sets themselves, which favours KNN.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray, as_floating
from typica.errors import InputError
from typica.linalg import unit_rows
from typica.metrics import evaluate

CLASSES = 10  # at most this many play the unknown
ROWS = 1000  # at most this many are set aside
BLOCK = 64  # of them are compared with the others at once


def choose_k(
    train: AnyArray, labels: AnyArray, grid: Sequence[int], seed: int = 0
) -> tuple[int, dict[int, float]]:
    """Return the best k of the grid, and the mean AUROC of each that the training rows suffice for.

    >>> rng = np.random.default_rng(0)
    >>> labels = np.arange(300) % 3
    >>> train = np.eye(3)[labels] + rng.normal(scale=0.1, size=(300, 3))
    >>> k, aurocs = choose_k(train, labels, [5, 50, 5000])
    >>> k, sorted(aurocs)
    (5, [5, 50])
    """
    classes = np.unique(labels)
    if len(classes) < 3:
        raise InputError(
            f"KNN: {len(classes)} classes; choosing k takes at least 3, or pass k as a number."
        )
    rng = np.random.default_rng(seed)
    unknown = np.sort(rng.choice(classes, min(CLASSES, len(classes)), replace=False))
    aside = np.zeros(len(train), dtype=bool)
    aside[rng.choice(len(train), min(ROWS, len(train) // 5), replace=False)] = True
    usable = _usable(grid, labels[~aside], unknown)
    cosines = _kth_cosines(train, labels, aside, unknown, usable)
    means = _mean_aurocs(cosines, labels[aside], usable)
    if not means:
        raise InputError("KNN: too few training rows to choose k on; pass k as a number.")
    return max(means, key=lambda k: (means[k], -k)), means


def _usable(grid: Sequence[int], known: AnyArray, unknown: AnyArray) -> list[int]:
    """Return the k of the grid that the rows suffice for, whichever class is taken out of them."""
    largest = max(int((known == left_out).sum()) for left_out in unknown)
    fewest = len(known) - largest
    usable = sorted({int(k) for k in grid if k <= fewest})
    if not usable:
        limit = f"{fewest}, the fewest rows that are left"
        raise InputError(
            f"KNN: no k of the grid {list(grid)} is at most {limit} without a class; "
            "add a smaller one, or pass more training rows."
        )
    return usable


def _kth_cosines(
    train: AnyArray,
    labels: AnyArray,
    aside: NDArray[np.bool_],
    unknown: AnyArray,
    usable: Sequence[int],
) -> dict[Any, NDArray[np.float64]]:
    """Return, by the class left out, the cosine of each row set aside to its k-th nearest row."""
    rows = unit_rows(as_floating(np.asarray(train[~aside])))
    queries = unit_rows(as_floating(np.asarray(train[aside])))
    known = labels[~aside]
    kept = {left_out: np.flatnonzero(known != left_out) for left_out in unknown.tolist()}
    cosines = {left_out: np.empty((len(queries), len(usable))) for left_out in kept}
    for start in range(0, len(queries), BLOCK):
        block = slice(start, start + BLOCK)
        products = queries[block] @ rows.T
        for left_out, columns in kept.items():
            # Of unit vectors the k-th nearest has the k-th largest product.
            places = len(columns) - np.array(usable)
            ordered = np.partition(products[:, columns], places, axis=1)
            cosines[left_out][block] = ordered[:, places]
    return cosines


def _mean_aurocs(
    cosines: Mapping[Any, NDArray[np.float64]], labels: AnyArray, usable: Sequence[int]
) -> dict[int, float]:
    """Return the mean AUROC of each k over the classes that have rows set aside."""
    aurocs: dict[int, list[float]] = {k: [] for k in usable}
    for left_out, scores in cosines.items():
        unknown = labels == left_out
        if unknown.all() or not unknown.any():
            continue
        for column, k in enumerate(usable):
            aurocs[k].append(evaluate(scores[~unknown, column], scores[unknown, column]).auroc)
    return {k: float(np.mean(values)) for k, values in aurocs.items() if values}
