"""From scores to numbers, as the paper's appendix does it.

An OOD set larger than the ID test set is cut to the size of that set, `subsets` times at random,
and the numbers are averaged; their standard deviation (n - 1 in the denominator) is given too. A
smaller set is taken whole, and so is every set with `full=True`: nothing is drawn then, and the
deviation is 0. The draws depend only on the seed and the set's name: the same rows for every
method, whatever else is measured.
"""

from __future__ import annotations

import hashlib
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from typica.arrays import AnyArray
from typica.as_json import json_number
from typica.bench._measures import Measure
from typica.bench._record import OnSet
from typica.bench._suite import Protocol
from typica.metrics import METRICS, Evaluation, Result, evaluate


@dataclass(frozen=True)
class Measured:
    """One method on all OOD sets: the means over the draws, and every draw by OOD set.

    >>> scores = {"far": np.array([1.0, 1.0, 2.5])}
    >>> measured = measure("ctm", np.array([2.0, 3.0]), scores, Protocol(subsets=4))
    >>> measured.evaluation.ood["far"].n_ood, len(measured.runs["far"])
    (2, 4)
    """

    evaluation: Evaluation
    runs: Mapping[str, tuple[Result, ...]]

    def average(self, names: Iterable[str] | None = None) -> dict[str, Measure]:
        """Return the mean of each metric over the OOD sets (or those of these names).

        Its deviation is that of the average of one draw of each set: sets that were not drawn do
        not vary.
        """
        chosen = list(self.runs) if names is None else list(names)
        draws = max(len(self.runs[name]) for name in chosen)
        found = {}
        for metric in METRICS:
            values = [_values(self.runs[name], metric) for name in chosen]
            mean = math.fsum(statistics.fmean(of_set) for of_set in values) / len(values)
            means = []
            for draw in range(draws):
                drawn = math.fsum(of_set[draw % len(of_set)] for of_set in values)
                means.append(drawn / len(values))
            found[metric] = Measure(mean, _deviation(means))
        return found

    def on_sets(self) -> dict[str, OnSet]:
        """Return the means on each OOD set, with their deviations over the draws."""
        found = {}
        for name, result in self.evaluation.ood.items():
            measures = {}
            for metric in METRICS:
                std = _deviation(_values(self.runs[name], metric))
                measures[metric] = Measure(getattr(result, metric), std)
            threshold = json_number(result.threshold)
            found[name] = OnSet(measures, result.n_ood, threshold, len(self.runs[name]))
        return found


def _values(results: Iterable[Result], metric: str) -> list[float]:
    return [getattr(result, metric) for result in results]


def _deviation(values: Sequence[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


def measure(
    method: str,
    id_scores: AnyArray,
    ood_scores: Mapping[str, AnyArray],
    protocol: Protocol,
    *,
    full: bool = False,
) -> Measured:
    """Measure how the scores of one method tell the ID test set from each OOD set."""
    n = len(id_scores)
    runs = {}
    for name, scores in ood_scores.items():
        draws = [slice(None)] if full else subsets(name, len(scores), n, protocol)
        runs[name] = tuple(
            evaluate(id_scores, scores[rows], protocol.tpr, convention=protocol.convention)
            for rows in draws
        )
    means = {name: _mean_over_subsets(results) for name, results in runs.items()}
    return Measured(Evaluation(method, float(protocol.tpr), n, means, protocol.convention), runs)


def subsets(name: str, size: int, wanted: int, protocol: Protocol) -> list[Any]:
    """Return which rows of an OOD set of `size` rows each draw takes: all, if `wanted` are more.

    >>> [sorted(rows.tolist()) for rows in subsets("svhn", 9, 4, Protocol(subsets=2))]
    [[0, 5, 7, 8], [0, 2, 5, 6]]
    """
    if size <= wanted:
        return [slice(None)]
    words = np.frombuffer(hashlib.sha256(name.encode()).digest(), dtype="<u4")
    rng = np.random.default_rng([protocol.seed, *words.tolist()])
    return [rng.choice(size, wanted, replace=False) for _ in range(protocol.subsets)]


def _mean_over_subsets(results: tuple[Result, ...]) -> Result:
    """Return the mean of the results on the random subsets of one OOD set."""
    first = results[0]
    if len(results) == 1:
        return first
    means: dict[str, Any] = {}
    for metric in METRICS:
        means[metric] = math.fsum(_values(results, metric)) / len(results)
    # The median: exact where all draws share the threshold, as in all conventions but interpolated.
    threshold = statistics.median(result.threshold for result in results)
    return replace(first, **means, threshold=threshold)
