"""What a benchmark found, in a sentence or two: for the terminal, the report, and Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from typica.bench._measures import Measure
from typica.bench._record import Record
from typica.metrics import METRICS


@dataclass(frozen=True)
class Headline:
    """What was tested, which detector to take, and what it lets through. `str()` says it.

    Attributes
    ----------
    title
        The suite's title.
    methods, sets
        How many methods were tested, and on which OOD sets.
    take
        The detector to take.
    metric, measure
        "fpr" and the share of OOD inputs that `take` accepts, averaged over the sets; "auroc" and
        its AUROC if that share was not measured.
    false_alarms
        The share of known inputs that are rejected.
    by_set
        The metric on each OOD set.
    rivals
        Other detectors whose mean lies within the interval of `take`, with their means.
    published_by
        Who published numbers on these sets too, if only such sets count.
    """

    title: str
    methods: int
    sets: tuple[str, ...]
    take: str
    metric: str
    measure: Measure
    false_alarms: float
    by_set: Mapping[str, float] = field(default_factory=dict)
    rivals: Mapping[str, float] = field(default_factory=dict)
    published_by: str = ""

    def __str__(self) -> str:
        return f"{self.title}: {self.tested} {self.advice} {self.compared}".rstrip()

    @property
    def tested(self) -> str:
        """What was tested."""
        noun = "OOD set" if len(self.sets) == 1 else "OOD sets"
        which = f", which {self.published_by} has too" if self.published_by else ""
        methods = "1 method was" if self.methods == 1 else f"{self.methods} methods were"
        sets = f"{len(self.sets)} {noun} ({', '.join(self.sets)}{which})"
        return f"{methods} tested on {sets}."

    @property
    def advice(self) -> str:
        """Which detector to take, and what it lets through at which false-alarm rate."""
        begin = f"{self.take}:" if self.methods == 1 else f"Take {self.take}:"
        value = _percent(self.measure.value)
        if self.metric != "fpr":
            return f"{begin} it reaches an AUROC of {value}{self._interval()}."
        rate = f"at a false-alarm rate of {100 * self.false_alarms:.4g} %"
        through = f"it lets {value} of the unknowns through{self._interval()}"
        return f"{begin} {through} {rate}{self._ends()}."

    @property
    def compared(self) -> str:
        """Which others do as well, as far as these inputs can tell; "" for none."""
        if not self.rivals:
            return ""
        named = [f"{name} ({_percent(value)})" for name, value in self.rivals.items()]
        return f"Within that interval: {', '.join(named)}."

    def _interval(self) -> str:
        if self.measure.interval is None:
            return ""
        low, high = self.measure.interval
        return f" (95 % interval {100 * low:.1f} to {100 * high:.1f})"

    def _ends(self) -> str:
        """Say on which sets it does best and worst."""
        if len(self.by_set) < 2:
            return ""
        least = min(self.by_set, key=lambda name: self.by_set[name])
        most = max(self.by_set, key=lambda name: self.by_set[name])
        if self.by_set[least] == self.by_set[most]:
            return ""
        low, high = _percent(self.by_set[least]), _percent(self.by_set[most])
        return f", from {low} of {least} to {high} of {most}"


def headline(record: Record, *, against: str | None = None) -> Headline | None:
    """Return what a record of `main` or `detail` amounts to; None where nothing was measured.

    The detector to take is the one that lets the smallest share of the unknowns through, on average
    over the OOD sets; among equals the one with the largest AUROC. against: whose published numbers
    to compare with, e.g. "paper"; then only the sets that they cover too count.

    >>> ctm, msp = {"fpr": 0.2, "auroc": 0.9}, {"fpr": 0.4, "auroc": 0.8}
    >>> results = {"ctm": {"ood": {"svhn": ctm}}, "msp": {"ood": {"svhn": msp}}}
    >>> found = headline(Record.from_dict({"suite": "my", "results": results}))
    >>> found.tested
    '2 methods were tested on 1 OOD set (svhn).'
    >>> found.advice
    'Take ctm: it lets 20.0 % of the unknowns through at a false-alarm rate of 5 %.'
    """
    if record.experiment not in ("main", "detail"):
        return None
    beside = record.beside(against)
    sets = record.covered(against=beside)
    for metric in ("fpr", "auroc"):
        found = {name: record.means(name, sets).get(metric) for name in record.ranked}
        known = {name: measure for name, measure in found.items() if measure is not None}
        if known:
            return _headline(record, sets, metric, known, beside)
    return None


def _headline(
    record: Record, sets: Sequence[str], metric: str, means: Mapping[str, Measure], against: bool
) -> Headline:
    sign = 1 if METRICS[metric].better == "lower" else -1
    take = min(means, key=lambda name: sign * means[name].value)  # the first in rank among equals
    on_sets = {name: record.value(take, name, metric) for name in sets}
    return Headline(
        title=record.title,
        methods=len(means),
        sets=tuple(sets),
        take=take,
        metric=metric,
        measure=means[take],
        false_alarms=1 - record.protocol.tpr,
        by_set={name: value for name, value in on_sets.items() if value is not None},
        rivals=_rivals(take, means),
        published_by=record.publisher if against and record.in_common else "",
    )


def _rivals(take: str, means: Mapping[str, Measure]) -> dict[str, float]:
    interval = means[take].interval
    if interval is None:
        return {}
    low, high = interval
    rivals = {}
    for name, measure in means.items():
        if name != take and low <= measure.value <= high:
            rivals[name] = measure.value
    return rivals


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
