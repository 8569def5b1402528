"""What was published for a row, to show beside what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from typica.bench._measures import (
    Numbers,
    count_of,
    known_entries,
    mapping,
    mean,
    metrics_of,
    numbers_of,
    texts_of,
)
from typica.metrics import METRICS


@dataclass(frozen=True)
class Common:
    """A printed mean over the OOD sets that both have: which these are, and out of how many."""

    sets: tuple[str, ...] = ()
    numbers: Numbers = field(default_factory=dict)
    of: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Give plain JSON types."""
        return {"sets": list(self.sets), **self.numbers, **known_entries({"of": self.of})}

    @classmethod
    def from_dict(cls, document: Any) -> Common:
        """Read what `to_dict` gave."""
        entry = mapping(document)
        return cls(texts_of(entry.get("sets")), metrics_of(entry), count_of(entry.get("of")))


@dataclass(frozen=True)
class Printed:
    """What was published for one row: by OOD set, its average, and the means to compare with."""

    sets: Mapping[str, Numbers] = field(default_factory=dict)
    average: Numbers = field(default_factory=dict)
    means: tuple[Common, ...] = ()

    @property
    def of(self) -> int:
        """How many OOD sets the average covers, where that is known; else 0."""
        return max((mean.of or 0 for mean in self.means), default=0)

    def on(self, name: str) -> Numbers:
        """Return what was printed of one OOD set."""
        return self.sets.get(name, {})

    def mean(self, sets: Sequence[str]) -> Numbers:
        """Return the published mean over these OOD sets; {} where they were not all printed.

        If one of `means` covers exactly these sets, it is taken as printed.

        >>> printed = Printed({"a": {"auroc": 0.5}, "b": {"auroc": 0.75}}, {"auroc": 0.6})
        >>> printed.mean(["a", "b"]), printed.mean(["a", "c"])
        ({'auroc': 0.625}, {})
        """
        for printed in self.means:
            if sets and set(printed.sets) == set(sets):
                return printed.numbers
        by_set = [self.on(name) for name in sets]
        found = {}
        for metric in METRICS:
            here = [numbers[metric] for numbers in by_set if metric in numbers]
            if by_set and len(here) == len(by_set):
                found[metric] = mean(here)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Give plain JSON types."""
        document: dict[str, Any] = {name: dict(numbers) for name, numbers in self.sets.items()}
        document["average"] = dict(self.average)
        means = [mean.to_dict() for mean in self.means]
        return document | ({"common": means[0]} if len(means) == 1 else {"means": means})

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Printed:
        """Read what `to_dict` gave."""
        sets = {}
        for name, entry in document.items():
            if name not in ("average", "common", "means"):
                sets[name] = metrics_of(mapping(entry))
        average = numbers_of(document.get("average"))
        several = document.get("means")
        means = several if isinstance(several, list) else [document.get("common")]
        return cls(sets, average, tuple(map(Common.from_dict, means)))
