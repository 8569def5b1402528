"""What the analysis finds, as typed records; `typica.bench._analysis` says what each part means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

BySet = Mapping[str, float]


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

    @property
    def rank_correlation(self) -> float | None:
        """Spearman's correlation with the cosine over all inputs."""
        if self.correlation is None:
            return None
        return self.correlation["all"]["spearman"]


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
        values = dict(document)
        return cls(label=values.pop("class"), **values)


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
        return cls(document["probability"], document["predicted"], classes)


@dataclass(frozen=True)
class Steps:
    """Steps on the weights: their sizes, KL(u || p) at the means, AUROC of what moves by set."""

    sizes: Sequence[float]
    at_means: Mapping[str, Any]
    auroc: Mapping[str, Mapping[str, Sequence[float]]]


@dataclass(frozen=True)
class Curve:
    """Lines over common places: y by set."""

    x: Sequence[float]
    y: Mapping[str, Sequence[float]]
    x_label: str = ""
    y_label: str = ""


@dataclass(frozen=True)
class Motivation:
    """The AUROC of norm, cosine and logit alone by set, and which of them catches a set best."""

    auroc: Mapping[str, BySet]
    caught_by: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Histogram:
    """Counts over common bins, and mean, deviation and quantiles, by set."""

    edges: Sequence[float]
    counts: dict[str, Sequence[int]]
    mean: dict[str, float]
    std: dict[str, float]
    quantiles: dict[str, Sequence[float]]


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
        histograms = document["histograms"]
        return cls(
            kernel={form: KernelForm(**found) for form, found in document["kernel"].items()},
            one_hot=OneHot.from_dict(document["one_hot"]),
            steps=Steps(**document["steps"]),
            curves={name: Curve(**curve) for name, curve in document["curves"].items()},
            motivation=Motivation(**document["motivation"]),
            histograms={name: Histogram(**found) for name, found in histograms.items()},
        )
