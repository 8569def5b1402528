"""Every detector and rectifier answers what it answered before, on any processor."""

from __future__ import annotations

from typing import Any

import numpy as np
from net import answers
from numpy.typing import NDArray

import typica
from typica import rectify

SETS, KNOWN = answers.read()


RANKS = 0.02  # a p-value may move by a rank or two of the held-out rows
VERDICTS = 1  # of the queries, at the threshold itself


def same(name: str, value: NDArray[Any], known: NDArray[Any], share: float) -> bool:
    """Tell whether two answers agree; numbers may differ by a share of the largest."""
    if value.dtype.kind != "f" or value.shape != known.shape:
        return np.array_equal(value, known)
    if name != "decided":
        return close(value, known, 0.1 if name == "ranks" else share)
    score, p, typical, *thresholds = zip(value, known, strict=True)
    return (
        close(*score, share)
        and np.abs(p[0] - p[1]).max() <= RANKS
        and (typical[0] != typical[1]).sum() <= VERDICTS
        and all(close(*pair, share) for pair in thresholds)
    )


def close(value: NDArray[Any], known: NDArray[Any], share: float) -> bool:
    """Tell whether numbers agree within a share of the largest finite one."""
    largest = np.abs(known[np.isfinite(known)]).max(initial=0)
    return np.allclose(value, known, rtol=0, atol=share * largest, equal_nan=True)


def tolerance(method: str, dtype: str) -> float:
    listed = method in typica.list_detectors()
    kind = typica.detector_class(method) if listed else rectify.rectifier_class(method)
    return max(2 * kind.tags.tolerance[dtype == "float64"], 1e-6)


def test_nothing_is_answered_otherwise():
    wrong, seen = [], set()
    for key, method, dtype, found in answers.all_answers(SETS):
        seen |= {f"{key}/{name}" for name in found}
        for name, value in found.items():
            if not same(name, value, KNOWN[f"{key}/{name}"], tolerance(method, dtype)):
                wrong.append(f"{key}/{name}")
    assert wrong == []
    assert seen == set(KNOWN)
