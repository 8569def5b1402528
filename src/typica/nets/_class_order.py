"""Do labels and outputs mean the same classes? The best relabelling of the outputs tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from typica.arrays import row_blocks
from typica.bank import Bank
from typica.errors import listed

FAR = 0.1  # what a relabelling must gain beyond luck for the order to be in doubt

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class ClassOrder:
    """The share of labels that are predicted as they stand, and with the outputs' best names.

    names: by output, the label that suits it best, None where none is left.
    """

    top_1: float
    best: float
    names: tuple[int | None, ...]


def doubtful_order(bank: Bank) -> ClassOrder | None:
    """Return a better order of a bank's classes; None where its own is as good as any.

    The best relabelling gains a little by luck: what it gains on shuffled predictions is
    subtracted.
    """
    if bank.logits is None or bank.labels is None or bank.labels.dtype.kind not in "iu":
        return None
    labels, predicted = np.asarray(bank.labels), _predicted(bank)
    if labels.min() < 0:
        return None
    found = best_order(labels, predicted, bank.logits.shape[1])
    if None in found.names:  # more outputs than classes: another classifier's, not another order
        return None
    shuffled = np.random.default_rng(0).permutation(predicted)
    luck = best_order(labels, shuffled, bank.logits.shape[1])
    gain = (found.best - found.top_1) - (luck.best - luck.top_1)
    return found if gain > FAR else None


def best_order(labels: Counts, predicted: Counts, outputs: int) -> ClassOrder:
    """Return how well outputs predict labels, as they stand and where each has its best label.

    >>> best_order(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 0]), 2)
    ClassOrder(top_1=0.0, best=1.0, names=(1, 0))
    """
    known, places = np.unique(labels, return_inverse=True)  # the largest may be any number
    counts = np.zeros((outputs, len(known)), dtype=np.int64)
    np.add.at(counts, (predicted, places), 1)
    rows, columns = linear_sum_assignment(counts, maximize=True)
    pairs = dict(zip(rows.tolist(), known[columns].tolist(), strict=True))
    names = tuple(pairs.get(output) for output in range(outputs))
    best = float(counts[rows, columns].sum() / len(labels))
    return ClassOrder(float(np.mean(labels == predicted)), best, names)


def _predicted(bank: Bank) -> Counts:
    parts = [np.argmax(bank.logits[rows], axis=1) for rows in row_blocks(len(bank), 1)]  # type: ignore[index]
    return np.concatenate(parts)


def told_order(order: ClassOrder, classes: Sequence[str] | None, shown: int = 10) -> str:
    """Return the names that outputs seem to have, in their order, for a message."""
    texts = []
    for name in order.names:
        label = "?" if name is None else str(name)
        texts.append(label if name is None or classes is None else classes[name])
    return listed(texts, shown)
