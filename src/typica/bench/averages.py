"""Which OOD sets an average covers: one rule for the tables, the plots and the report.

An average covers every OOD set that was measured. Where the paper's stands beside it, both cover
the sets that both have. What it covers is written above it: "mean of 2 of 3 OOD sets (svhn,
textures)".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from typica.metrics import METRICS

_NO_SETS = ("train", "test")  # of the inputs that a document counts, and no OOD sets
_NO_NUMBERS = ("average", "common")  # of the paper's entries, and no OOD sets


def measured_sets(document: Mapping[str, Any]) -> list[str]:
    """Return the OOD sets that were measured, in the order of the suite.

    >>> measured_sets({"n": {"train": 9, "test": 9, "svhn": 9, "mine": 9}})
    ['svhn', 'mine']
    """
    return [name for name in document["n"] if name not in _NO_SETS]


def sets_in_common(published: Mapping[str, Any], measured: Sequence[str]) -> list[str]:
    """Return those of the measured OOD sets that the paper has too.

    >>> sets_in_common({"ctm": {"svhn": {"auroc": 0.9}, "average": {"auroc": 0.8}}}, ["svhn", "mine"])
    ['svhn']
    """
    entries = [entry for entry in published.values() if isinstance(entry, Mapping)]
    found = {name for entry in entries for name in (*entry, *_common(entry).get("sets", ()))}
    return [name for name in measured if name in found.difference(_NO_NUMBERS)]


def coverage(names: Sequence[str], measured: Sequence[str], kind: str = "OOD") -> str:
    """Say what an average over these of the measured sets covers.

    >>> coverage(["svhn", "dtd"], ["svhn", "dtd", "mine"]), coverage(["svhn"], ["svhn"])
    ('mean of 2 of 3 OOD sets (svhn, dtd)', 'mean of 1 OOD set (svhn)')
    """
    share = f"{len(names)}" if len(names) == len(measured) else f"{len(names)} of {len(measured)}"
    return f"mean of {share} {kind} {'set' if len(measured) == 1 else 'sets'} ({', '.join(names)})"


def average_over(record: Mapping[str, Any], names: Sequence[str]) -> dict[str, float]:
    """Return the mean of each metric of a result over these OOD sets, with its deviation as "_std".

    Sets are drawn independently: the deviation of their mean is the root of the sum of squares,
    over their number.

    >>> record = {"ood": {"a": {"auroc": 0.5, "auroc_std": 0.03}, "b": {"auroc": 0.75, "auroc_std": 0.04}}}
    >>> average_over(record, ["a", "b"])
    {'auroc': 0.625, 'auroc_std': 0.025}
    """
    if set(names) == set(record["ood"]) and isinstance(record.get("average"), Mapping):
        return dict(record["average"])
    by_set = [record["ood"].get(name, {}) for name in names]
    spreads = {
        f"{m}_std": math.hypot(*(numbers.get(f"{m}_std") or 0.0 for numbers in by_set))
        for m in METRICS
    }
    means = _means(by_set)
    return {
        key: value
        for m in means
        for key, value in ((m, means[m]), (f"{m}_std", spreads[f"{m}_std"] / len(names)))
    }


def paper_average(entry: Mapping[str, Any], names: Sequence[str]) -> dict[str, float]:
    """Return the paper's mean of a row over these OOD sets; {} where it has not printed them all.

    The average as printed stands where these are all that it printed, which the entry's "common"
    knows.

    >>> entry = {"a": {"auroc": 0.5}, "b": {"auroc": 0.75}, "average": {"auroc": 0.6}}
    >>> paper_average(entry, ["a", "b"]), paper_average(entry, ["a", "c"])
    ({'auroc': 0.625}, {})
    """
    common = _common(entry)
    if names and set(common.get("sets", ())) == set(names):
        return {metric: value for metric, value in common.items() if metric in METRICS}
    return _means(
        [numbers if isinstance(numbers := entry.get(name), Mapping) else {} for name in names]
    )


def _means(by_set: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the mean of each metric that all of the sets have."""
    known = [
        m
        for m in METRICS
        if by_set and all(isinstance(numbers.get(m), float | int) for numbers in by_set)
    ]
    return {m: math.fsum(numbers[m] for numbers in by_set) / len(by_set) for m in known}


def _common(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    found = entry.get("common")
    return found if isinstance(found, Mapping) else {}
