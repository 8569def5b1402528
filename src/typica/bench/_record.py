"""The result of an experiment as one typed record: what runs make, files keep and tables show.

As JSON, which `to_dict` gives and `from_dict` reads:

    {"suite", "title", "experiment", "protocol", "accuracy": {"standard", "cw", "cm"},
     "near": [SETS], "n": {SET: rows},
     "results": {ROW: {"ood": {SET: {"fpr", "fpr_std", "fpr_interval", "auroc", ...}},
                       "average": {...}, "near": ..., "far": ..., "common": ..., "params": {...},
                       "aurc", "e_aurc"}},
     "skipped": {ROW or SET: why, and what to do}, "absent": [SETS of these],
     "skipped_as": {ROW or SET: the same in a word or two},
     "left_out": {SET: [reasons]},
     "published": {ROW: {SET: {"fpr", "auroc"}, "average": {...},
                         "common": {"sets": [SETS], "fpr", "auroc", "of"}}},
     "published_by": whose numbers these are}

All shares are fractions. A ROW is a method; in `ablation` it is standard, cw or cm, in `layers` a
layer; `analysis` has no rows, but the parts of `typica.bench._analysis_record`. "common" is the
published mean over the OOD sets that both have. Where means over near and over far sets were
published, "means" lists them instead. For `ablation` and `layers` the paper printed only averages:
there "common" has no numbers, only the sets that both have, and "of", how many the paper has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

from typica.as_json import finite_number
from typica.bench._analysis_record import Analysis
from typica.bench._measures import (
    Measure,
    Measures,
    Numbers,
    count_of,
    known_entries,
    mapping,
    mean,
    measures_of,
    measures_to_dict,
    numbers_of,
    std_of_mean,
    texts_of,
)
from typica.bench._printed import Printed
from typica.bench._skipped import Skipped
from typica.bench.published import PAPER, title_of
from typica.errors import FormatError
from typica.metrics import CONVENTIONS, METRICS, Metric

ID_SETS: Final = ("train", "test")
ACCURACY: Final = "accuracy"  # in `skipped`: neither a row nor an OOD set


@dataclass(frozen=True)
class OnSet:
    """What a row reached on one OOD set: of `n` inputs, on average over random `subsets`."""

    measures: Measures
    n: int | None = None
    threshold: float | str | None = None
    subsets: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Give plain JSON types."""
        others = {"n": self.n, "threshold": self.threshold, "subsets": self.subsets}
        return known_entries(others) | measures_to_dict(self.measures)

    @classmethod
    def from_dict(cls, document: Any) -> OnSet:
        """Read what `to_dict` gave; what is not there is None."""
        entry = mapping(document)
        n, subsets = count_of(entry.get("n")), count_of(entry.get("subsets"))
        return cls(measures_of(entry), n, entry.get("threshold"), subsets)


@dataclass(frozen=True)
class Row:
    """What was measured of one row, e.g. a method: on each OOD set, and on average.

    average, near, far: over all OOD sets and over those of a kind, with the deviation of the mean
    of one draw of each. common: over those that the paper has too, where these are not all. aurc,
    e_aurc: how well the row ranks the network's own mistakes.
    """

    ood: Mapping[str, OnSet]
    average: Measures = field(default_factory=dict)
    near: Measures = field(default_factory=dict)
    far: Measures = field(default_factory=dict)
    common: Measures = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    aurc: float | None = None
    e_aurc: float | None = None

    def on(self, name: str) -> Measures:
        """Return the measures on one OOD set; none where it was not measured."""
        return self.ood[name].measures if name in self.ood else {}

    def means(self, sets: Sequence[str]) -> Measures:
        """Return the mean of each metric over these OOD sets, with its deviation.

        Sets are drawn independently: the deviation of their mean is the root of the sum of
        squares, over their number. A set that was taken whole adds none.

        >>> ood = {"a": {"auroc": 0.5, "auroc_std": 0.03}, "b": {"auroc": 0.75, "auroc_std": 0.04}}
        >>> Row.from_dict({"ood": ood}).means(["a", "b"])
        {'auroc': Measure(value=0.625, std=0.025, interval=None)}
        """
        if self.average and set(sets) == set(self.ood):
            return self.average
        by_set = [self.on(name) for name in sets]
        found = {}
        for metric in METRICS:
            here = [measures[metric] for measures in by_set if metric in measures]
            if by_set and len(here) == len(by_set):
                middle = mean(measure.value for measure in here)
                found[metric] = Measure(middle, std_of_mean([measure.std for measure in here]))
        return found

    def to_dict(self) -> dict[str, Any]:
        """Give plain JSON types."""
        document: dict[str, Any] = {
            "ood": {name: found.to_dict() for name, found in self.ood.items()}
        }
        for kind in ("average", "near", "far", "common"):
            if measures := getattr(self, kind):
                document[kind] = measures_to_dict(measures)
        document["params"] = dict(self.params)
        return document | known_entries({"aurc": self.aurc, "e_aurc": self.e_aurc})

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Row:
        """Read what `to_dict` gave; only "ood" must be there."""
        return cls(
            ood={name: OnSet.from_dict(entry) for name, entry in document["ood"].items()},
            average=measures_of(document.get("average")),
            near=measures_of(document.get("near")),
            far=measures_of(document.get("far")),
            common=measures_of(document.get("common")),
            params=mapping(document.get("params")),
            aurc=finite_number(document.get("aurc")),
            e_aurc=finite_number(document.get("e_aurc")),
        )


@dataclass(frozen=True)
class Stated:
    """The protocol that numbers were measured with; None where a file does not say."""

    tpr: float = 0.95
    convention: str = "first"
    subsets: int | None = None
    seed: int | None = None
    full: bool | None = None

    def to_dict(self) -> dict[str, Any]:
        """Give plain JSON types."""
        others = {"subsets": self.subsets, "seed": self.seed, "full": self.full}
        return {"tpr": self.tpr, "convention": self.convention, **known_entries(others)}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Stated:
        """Read what a result's `to_dict` stated; what is not there is the default."""
        stated = document.get("tpr", 0.95)
        tpr = finite_number(stated)
        if tpr is None or not 0 < tpr <= 1:
            raise FormatError(f"has a tpr of {stated!r}; run the benchmark again.")
        convention = document.get("convention", "first")
        if convention not in tuple(CONVENTIONS):
            choices = ", ".join(CONVENTIONS)
            raise FormatError(
                f"has the convention {convention!r}, known are {choices}; run the benchmark again."
            )
        subsets, seed, full = (document.get(key) for key in ("subsets", "seed", "full"))
        return cls(tpr, convention, subsets, seed, full)


@dataclass(frozen=True)
class Record:
    """One experiment on one suite.

    Attributes
    ----------
    suite, title, experiment
        The names of the suite and of the experiment, and the suite's title.
    protocol
        How scores were turned into numbers.
    accuracy
        Top-1 accuracy by logits ("standard"), by cosines to weights ("cw") and to means ("cm").
    near
        The OOD sets that resemble the training data.
    n
        How many inputs each set has.
    rows
        What was measured, by row: a method, or in some experiments a score or a layer.
    skipped, absent
        Why rows and OOD sets have no numbers, and which of these are OOD sets.
    left_out
        Images that could not be read, by set, with the reason.
    published, published_by
        Published numbers by row, and whose they are.
    analysis
        The parts of the experiment `analysis`.
    """

    suite: str
    title: str
    experiment: str = "main"
    protocol: Stated = Stated()
    accuracy: Numbers = field(default_factory=dict)
    near: tuple[str, ...] = ()
    n: Mapping[str, int] = field(default_factory=dict)
    rows: Mapping[str, Row] = field(default_factory=dict)
    skipped: Mapping[str, Skipped] = field(default_factory=dict)
    absent: tuple[str, ...] = ()
    left_out: Mapping[str, Sequence[str]] = field(default_factory=dict)
    published: Mapping[str, Printed] = field(default_factory=dict)
    published_by: str = PAPER
    analysis: Analysis | None = None

    @property
    def sets(self) -> list[str]:
        """The OOD sets that were measured, in the order of the suite."""
        found = dict.fromkeys(chain.from_iterable(row.ood for row in self.rows.values()))
        return list(found) or [name for name in self.n if name not in ID_SETS]

    @property
    def ranked(self) -> list[str]:
        """The rows, the best mean AUROC first."""
        return sorted(self.rows, key=lambda name: -(self.value(name, None, "auroc") or 0.0))

    @property
    def empty_rows(self) -> list[str]:
        """The rows that a table shows without numbers: all that was skipped but the accuracy."""
        return [name for name in self.skipped if name != ACCURACY]

    @property
    def fpr_name(self) -> str:
        """FPR with the share that it is measured at, e.g. FPR95."""
        return METRICS["fpr"].title(self.protocol.tpr)

    @property
    def in_common(self) -> list[str]:
        """Those of the measured OOD sets that were published too."""
        printed: set[str] = set()
        for entry in self.published.values():
            printed.update(entry.sets, *(mean.sets for mean in entry.means))
        return [name for name in self.sets if name in printed]

    @property
    def compared(self) -> list[list[str]]:
        """The OOD sets of each published mean that ours compare with; there may be several."""
        found: dict[tuple[str, ...], None] = {}
        for entry in self.published.values():
            found |= {mean.sets: None for mean in entry.means if mean.sets}
        return [list(sets) for sets in found] if len(found) > 1 else [self.in_common]

    @property
    def publisher(self) -> str:
        """What sentences call the source of the published numbers."""
        return title_of(self.published_by)

    def is_of_the_run(self, other: Record) -> bool:
        """Tell whether suite, protocol and sizes of sets are those of another record.

        Sets that only one of the two has do not matter: one may have been added in between.
        """
        same_rule = (self.suite, self.protocol) == (other.suite, other.protocol)
        return same_rule and all(
            other.n[name] == size for name, size in self.n.items() if name in other.n
        )

    def beside(self, against: str | None) -> bool:
        """Tell whether there are numbers of the publication of this name to compare with."""
        return bool(self.published) and against == self.published_by

    def covered(self, *, against: bool) -> list[str]:
        """Return the OOD sets to average over: all, or `against` a publication those in common."""
        return (self.in_common if against else []) or self.sets

    def means(self, name: str, sets: Sequence[str]) -> Measures:
        """Return the means of a row over these OOD sets; those of a kind as they were drawn."""
        row, chosen, near = self.rows[name], set(sets), set(self.near)
        if row.near and chosen == near:
            return row.near
        if row.far and chosen == set(self.sets) - near:
            return row.far
        if row.common and chosen == set(self.in_common):
            return row.common
        return row.means(sets)

    def measured(self, metrics: Iterable[Metric]) -> list[Metric]:
        """Return those of the metrics that some row has on some OOD set, or on average."""
        has: set[str] = set()
        for row in self.rows.values():
            has.update(row.average, *(found.measures for found in row.ood.values()))
        return [metric for metric in metrics if metric.name in has]

    def value(self, name: str, ood: str | None, metric: str) -> float | None:
        """Return one number of a row, on an OOD set or (None) on average; None if it is absent."""
        row = self.rows[name]
        found = (row.means(list(row.ood)) if ood is None else row.on(ood)).get(metric)
        return None if found is None else found.value

    def to_dict(self) -> dict[str, Any]:
        """Give plain JSON types."""
        document: dict[str, Any] = {
            "suite": self.suite,
            "title": self.title,
            "experiment": self.experiment,
            "protocol": self.protocol.to_dict(),
            "accuracy": dict(self.accuracy),
            "near": list(self.near),
            "n": dict(self.n),
            "results": {name: row.to_dict() for name, row in self.rows.items()},
            "skipped": {name: str(reason) for name, reason in self.skipped.items()},
            "absent": list(self.absent),
            "skipped_as": {name: reason.tag for name, reason in self.skipped.items()},
            "left_out": {name: list(reasons) for name, reasons in self.left_out.items()},
        }
        if self.analysis is not None:
            document |= self.analysis.to_dict()
        document["published"] = {name: entry.to_dict() for name, entry in self.published.items()}
        document["published_by"] = self.published_by
        return document

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Record:
        """Read what `to_dict` gave; all but "suite" and "results" may be absent.

        >>> results = {"ctm": {"ood": {"svhn": {"auroc": 0.99}}}}
        >>> Record.from_dict({"suite": "my", "results": results}).value("ctm", "svhn", "auroc")
        0.99
        """
        suite = str(document["suite"])
        printed, left_out = mapping(document.get("published")), mapping(document.get("left_out"))
        return cls(
            suite=suite,
            title=str(document.get("title") or suite),
            experiment=str(document.get("experiment") or "main"),
            protocol=Stated.from_dict(mapping(document.get("protocol"))),
            accuracy=numbers_of(document.get("accuracy")),
            near=texts_of(document.get("near")),
            n=_sizes_of(document.get("n")),
            rows={name: Row.from_dict(row) for name, row in document["results"].items()},
            skipped=_skipped_of(document),
            absent=texts_of(document.get("absent")),
            left_out={name: texts_of(reasons) for name, reasons in left_out.items()},
            published={name: Printed.from_dict(mapping(entry)) for name, entry in printed.items()},
            published_by=str(document.get("published_by") or PAPER),
            analysis=Analysis.from_dict(document) if "kernel" in document else None,
        )


def coverage(names: Sequence[str], measured: Sequence[str], kind: str = "OOD") -> str:
    """Say what an average over these of the measured sets covers.

    >>> coverage(["svhn", "dtd"], ["svhn", "dtd", "mine"]), coverage(["svhn"], ["svhn"])
    ('mean of 2 of 3 OOD sets (svhn, dtd)', 'mean of 1 OOD set (svhn)')
    """
    share = f"{len(names)}"
    if len(names) != len(measured):
        share += f" of {len(measured)}"
    noun = "set" if len(measured) == 1 else "sets"
    return f"mean of {share} {kind} {noun} ({', '.join(names)})"


def _sizes_of(document: Any) -> dict[str, int]:
    """Return how many inputs each set of a record has, ignoring what is not a number."""
    found = {name: count_of(size) for name, size in mapping(document).items()}
    return {name: size for name, size in found.items() if size is not None}


def _skipped_of(document: Mapping[str, Any]) -> dict[str, Skipped]:
    tags = mapping(document.get("skipped_as"))
    reasons = mapping(document.get("skipped")).items()
    return {name: Skipped.from_text(str(text), tags.get(name)) for name, text in reasons}
