"""What the analysis finds, as typed records; `typica.bench._analysis` says what each part means.

A file may hold anything: what should be a number and is not one is refused when it is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from typica.as_json import finite_number
from typica.bench._measures import count_of
from typica.errors import FormatError

SHOWN_CURVES: Final = ("variation", "uncertainty")  # which have tables
BySet = Mapping[str, float]
LinesBySet = Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class KernelForm:
    """A result of the analysis: AUROC and mean of one form of the kernel by set, and extremes.

    correlation: with the cosine, {set or "all": {"pearson", "spearman"}}; the cosine has none.
    """

    auroc: BySet
    mean: BySet
    min: float
    max: float
    correlation: Mapping[str, Mapping[str, float | None]] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Give plain JSON types."""
        document = asdict(self)
        if self.correlation is None:
            del document["correlation"]
        return document

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> KernelForm:
        """Read what `to_dict` gave."""
        correlation = document.get("correlation")
        if correlation is not None:
            _check_number_or_none(correlation["all"]["spearman"])
        return cls(
            auroc=_by_set(document["auroc"]),
            mean=_by_set(document["mean"]),
            min=_number(document["min"]),
            max=_number(document["max"]),
            correlation=correlation,
        )

    @property
    def rank_correlation(self) -> float | None:
        """Spearman's correlation with the cosine over all inputs."""
        if self.correlation is None:
            return None
        return self.correlation["all"]["spearman"]


_OF_MEAN: Final = ("probability", "runner_up_probability", "entropy")  # which are numbers


@dataclass(frozen=True)
class AtMean:
    """The prediction at the mean of a class: its own probability, the runner-up, the entropy."""

    label: Any
    probability: float
    runner_up: Any
    runner_up_probability: float
    entropy: float

    def to_dict(self) -> dict[str, Any]:
        """Give plain JSON types."""
        document = asdict(self)
        return {"class": document.pop("label"), **document}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> AtMean:
        """Read what `to_dict` gave."""
        numbers = {name: _number(document[name]) for name in _OF_MEAN}
        return cls(label=document["class"], runner_up=document["runner_up"], **numbers)


_EXTREMES: Final = ("mean", "min", "max")  # of the probability of classes at their means


@dataclass(frozen=True)
class OneHot:
    """How nearly one-hot predictions at the class means are: a summary, and every class."""

    probability: Mapping[str, float]
    predicted: float
    classes: Sequence[AtMean]

    def to_dict(self) -> dict[str, Any]:
        """Give plain JSON types."""
        return {
            "probability": dict(self.probability),
            "predicted": self.predicted,
            "classes": [entry.to_dict() for entry in self.classes],
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> OneHot:
        """Read what `to_dict` gave."""
        classes = [AtMean.from_dict(entry) for entry in document["classes"]]
        probability = {name: _number(document["probability"][name]) for name in _EXTREMES}
        return cls(probability, _number(document["predicted"]), classes)


@dataclass(frozen=True)
class CertaintyAtMeans:
    """The mean KL(u || p) at the class means: before any step on the weights, and after each."""

    before: float
    after: Sequence[float]

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], steps: int) -> CertaintyAtMeans:
        """Read what `asdict` gave; steps: how many there are."""
        return cls(_number(document["before"]), _numbers(document["after"], steps))


@dataclass(frozen=True)
class Steps:
    """Steps on the weights: their sizes, KL(u || p) at the means, AUROC of what moves by set."""

    sizes: Sequence[float]
    at_means: CertaintyAtMeans
    auroc: Mapping[str, LinesBySet]

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Steps:
        """Read what `asdict` gave."""
        sizes = _numbers(document["sizes"])
        steps = len(sizes)
        auroc = {move: _lines_by_set(lines, steps) for move, lines in document["auroc"].items()}
        return cls(sizes, CertaintyAtMeans.from_dict(document["at_means"], steps), auroc)


@dataclass(frozen=True)
class Curve:
    """Lines over common places: y by set."""

    x: Sequence[float]
    y: LinesBySet
    x_label: str = ""
    y_label: str = ""

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Curve:
        """Read what `asdict` gave."""
        x = _numbers(document["x"])
        y = _lines_by_set(document["y"], len(x))
        return cls(x, y, str(document.get("x_label", "")), str(document.get("y_label", "")))


@dataclass(frozen=True)
class CaughtBy:
    """Which of norm, cosine and logit alone catches an OOD set best, and its AUROC."""

    by: str
    auroc: float

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> CaughtBy:
        """Read what `asdict` gave."""
        return cls(str(document["by"]), _number(document["auroc"]))


@dataclass(frozen=True)
class Motivation:
    """The AUROC of norm, cosine and logit alone by set, and which of them catches a set best."""

    auroc: Mapping[str, BySet]
    caught_by: Mapping[str, CaughtBy]

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Motivation:
        """Read what `asdict` gave."""
        auroc = {quantity: _by_set(by_set) for quantity, by_set in document["auroc"].items()}
        caught = document["caught_by"].items()
        return cls(auroc, {name: CaughtBy.from_dict(entry) for name, entry in caught})


@dataclass(frozen=True)
class Histogram:
    """Counts over common bins, and mean, deviation and quantiles, by set.

    quantiles: "at" holds where they are taken.
    """

    edges: Sequence[float]
    counts: Mapping[str, Sequence[int]]
    mean: BySet
    std: BySet
    quantiles: LinesBySet

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Histogram:
        """Read what `asdict` gave."""
        edges = _numbers(document["edges"])
        bins = len(edges) - 1
        return cls(
            edges,
            counts={name: _counts(found, bins) for name, found in document["counts"].items()},
            mean=_by_set(document["mean"]),
            std=_by_set(document["std"]),
            quantiles=_lines_by_set(document["quantiles"]),
        )


@dataclass(frozen=True)
class Analysis:
    """The four parts of the analysis."""

    kernel: Mapping[str, KernelForm]
    one_hot: OneHot
    steps: Steps
    curves: Mapping[str, Curve]
    motivation: Motivation
    histograms: Mapping[str, Histogram] = field(default_factory=dict)

    @property
    def sets(self) -> list[str]:
        """The OOD sets."""
        return list(next(iter(self.kernel.values())).auroc)

    def to_dict(self) -> dict[str, Any]:
        """Give plain JSON types."""
        return {
            "kernel": {form: found.to_dict() for form, found in self.kernel.items()},
            "one_hot": self.one_hot.to_dict(),
            "steps": asdict(self.steps),
            "curves": {name: asdict(curve) for name, curve in self.curves.items()},
            "motivation": asdict(self.motivation),
            "histograms": {name: asdict(found) for name, found in self.histograms.items()},
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Analysis:
        """Read what `to_dict` gave."""
        parts = {name: document[name].items() for name in ("kernel", "curves", "histograms")}
        found = cls(
            kernel={form: KernelForm.from_dict(entry) for form, entry in parts["kernel"]},
            one_hot=OneHot.from_dict(document["one_hot"]),
            steps=Steps.from_dict(document["steps"]),
            curves={name: Curve.from_dict(entry) for name, entry in parts["curves"]},
            motivation=Motivation.from_dict(document["motivation"]),
            histograms={name: Histogram.from_dict(entry) for name, entry in parts["histograms"]},
        )
        found._check_sets()
        return found

    def _check_sets(self) -> None:
        """Raise where a table would lack a set."""
        if not self.kernel:
            raise FormatError("has no form of the kernel; run the benchmark again.")
        for form in self.kernel.values():
            _check_has(form.auroc, self.sets)
        for by_set in self.motivation.auroc.values():
            _check_has(by_set, self.sets)
        for name in SHOWN_CURVES:
            _check_has(self.curves[name].y, ["test", *self.sets])


def _check_has(by_set: Mapping[str, Any], sets: Sequence[str]) -> None:
    for name in sets:
        if name not in by_set:
            raise FormatError(f"lacks {name!r} in a part of its analysis; run the benchmark again.")


def _number(value: Any) -> float:
    """Return a number of an analysis; raise for anything else."""
    found = finite_number(value)
    if found is None:
        raise FormatError(f"has {value!r} in place of a number; run the benchmark again.")
    return found


def _check_number_or_none(value: Any) -> None:
    if value is not None:
        _number(value)


def _numbers(values: Any, count: int | None = None) -> list[float]:
    """Return the numbers along an axis of a chart; raise if there are none, or not `count`."""
    if not isinstance(values, list) or not values:
        raise FormatError("has a chart without numbers; run the benchmark again.")
    if count not in (None, len(values)):
        raise FormatError(
            f"has {len(values)} numbers in place of {count} in a chart; run the benchmark again."
        )
    return [_number(value) for value in values]


def _counts(values: Any, bins: int) -> list[int]:
    """Return the counts of a histogram; raise if there are not as many as bins."""
    _numbers(values, bins)
    for value in values:
        if count_of(value) is None:
            raise FormatError(f"has {value!r} in place of a count; run the benchmark again.")
    return list(values)


def _by_set(document: Mapping[str, Any]) -> BySet:
    """Return the numbers of an analysis by set."""
    return {name: _number(value) for name, value in document.items()}


def _lines_by_set(document: Mapping[str, Any], count: int | None = None) -> LinesBySet:
    """Return rows of numbers of an analysis by set; raise if one has not `count`."""
    return {name: _numbers(line, count) for name, line in document.items()}
