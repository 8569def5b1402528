"""Numbers of a record and how sure they are, and how they are read from JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from typica.as_json import finite_number
from typica.checks import is_whole
from typica.metrics import METRICS

Numbers = Mapping[str, float]  # metric -> number
Interval = tuple[float, float]


@dataclass(frozen=True)
class Measure:
    """A number, how it varies over random subsets, and how far it may be off.

    std: the standard deviation over the random subsets that a large set is cut to, which is not the
    error of the number. interval: that of the bootstrap, 95 %; see `typica.bench._intervals`.
    """

    value: float
    std: float | None = None
    interval: Interval | None = None


Measures = Mapping[str, Measure]  # metric -> measure


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a JSON object in a result, and an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def measures_of(document: Any) -> dict[str, Measure]:
    """Read {"auroc", "auroc_std", "auroc_interval", ...}, ignoring what is not a number."""
    entry = mapping(document)
    found = {}
    for metric, value in metrics_of(entry).items():
        std = finite_number(entry.get(f"{metric}_std"))
        found[metric] = Measure(value, std, _interval_of(entry.get(f"{metric}_interval")))
    return found


def measures_to_dict(measures: Measures) -> dict[str, Any]:
    """Return what `measures_of` reads."""
    document: dict[str, Any] = {}
    for name, measure in measures.items():
        document[name] = measure.value
        if measure.std is not None:
            document[f"{name}_std"] = measure.std
        if measure.interval is not None:
            document[f"{name}_interval"] = list(measure.interval)
    return document


def _interval_of(value: Any) -> Interval | None:
    ends = [finite_number(end) for end in value] if isinstance(value, list) else []
    if len(ends) != 2 or ends[0] is None or ends[1] is None:
        return None
    return ends[0], ends[1]


def metrics_of(entry: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of an object in a result that are metrics."""
    return numbers_of({metric: entry.get(metric) for metric in METRICS})


def numbers_of(document: Any) -> dict[str, float]:
    """Return the numbers of an object in a result."""
    found = {key: finite_number(value) for key, value in mapping(document).items()}
    return {key: value for key, value in found.items() if value is not None}


def count_of(value: Any) -> int | None:
    """Return how many a result says there are, and None for what is not a count.

    >>> count_of(3), count_of("3"), count_of(-1)
    (3, None, None)
    """
    return value if is_whole(value) and value >= 0 else None


def texts_of(value: Any) -> tuple[str, ...]:
    """Return the texts of a list in a result, ignoring everything else.

    >>> texts_of(["svhn", 3]), texts_of("svhn")
    (('svhn',), ())
    """
    listed = value if isinstance(value, list | tuple) else ()
    return tuple(text for text in listed if isinstance(text, str))


def std_of_mean(stds: Sequence[float | None]) -> float | None:
    """Return the deviation of the mean of independent numbers; None where none is known."""
    known = [std for std in stds if std is not None]
    return math.hypot(*known) / len(stds) if known else None


def mean(values: Iterable[float]) -> float:
    listed = list(values)
    return math.fsum(listed) / len(listed)


def known_entries(entries: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of a benchmark's record that are not None.

    >>> known_entries({"n": 3, "seed": None})
    {'n': 3}
    """
    return {key: value for key, value in entries.items() if value is not None}
