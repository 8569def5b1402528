"""How well scores rank the network's own mistakes: the area under the risk-coverage curve."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray, to_numpy
from typica.errors import InputError, border
from typica.metrics._scores import checked_scores


@border
def aurc(scores: Any, wrong: Any) -> float:
    """Return the area under the risk-coverage curve (AURC) of scores (n,), higher = more trusted.

    wrong: (n,), whether each was a mistake of the network. Inputs are accepted from the highest
    score down. After i of n the coverage is i/n and the risk the share of mistakes among the i;
    AURC is the mean of the risk over i = 1 ... n. Lower is better. Equal scores are accepted in
    random order, and AURC is its expectation over these orders, exactly.

    Geifman, Uziel, El-Yaniv: Bias-Reduced Uncertainty Estimation for Deep Neural Classifiers, ICLR
    2019.

    >>> aurc([0.9, 0.8, 0.1], [False, False, True]) == (0 + 0 + 1 / 3) / 3
    True
    >>> aurc([0.5, 0.5], [False, True])
    0.5
    """
    scores, wrong = _checked_mistakes(scores, wrong)
    order = np.argsort(-scores, kind="stable")
    ranked, mistakes = scores[order], wrong[order]
    starts = np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]]))
    sizes = np.diff(np.append(starts, len(ranked)))
    # Of a tied group with w mistakes among g, the first j hold w j / g of them on average.
    share = np.repeat(np.add.reduceat(mistakes, starts) / sizes, sizes)
    before = np.repeat(np.append(0, np.cumsum(mistakes))[starts], sizes)
    within = np.arange(1, len(ranked) + 1) - np.repeat(starts, sizes)
    return float(np.mean((before + share * within) / np.arange(1, len(ranked) + 1)))


@border
def e_aurc(scores: Any, wrong: Any) -> float:
    """Return `aurc` minus its least value, that of a score that ranks all mistakes last.

    >>> e_aurc([0.9, 0.8, 0.1], [False, False, True])
    0.0
    """
    scores, wrong = _checked_mistakes(scores, wrong)
    return aurc(scores, wrong) - aurc(-wrong, wrong)


def _checked_mistakes(scores: Any, wrong: Any) -> tuple[AnyArray, NDArray[np.float64]]:
    scores = checked_scores(scores, "scores")
    mistakes = to_numpy(wrong)
    if scores.shape != mistakes.shape:
        found = f"scores of shape {scores.shape}, mistakes of {mistakes.shape}"
        raise InputError(f"{found}; pass one of each per row.")
    if not np.isin(mistakes, (0, 1)).all():
        raise InputError("mistakes must be True or False; pass prediction != label.")
    return scores, mistakes.astype(np.float64)
