"""The charts of an analysis and of the layers, as the page's script and the plots draw them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from typica.bench._analysis_record import Curve, Histogram
from typica.bench._record import Record
from typica.metrics import METRICS


@dataclass(frozen=True)
class Line:
    """One line of a chart; of a histogram x holds the edges, one more than there are shares."""

    name: str
    x: list[float]
    y: list[float]


@dataclass(frozen=True)
class Chart:
    """Lines over common axes; names: what stands along the x axis in place of numbers."""

    title: str
    series: tuple[Line, ...]
    x_label: str = ""
    y_label: str = ""
    names: tuple[str, ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Give plain JSON types."""
        return asdict(self)


def histogram_charts(found: Mapping[str, Histogram]) -> list[Chart]:
    """Return the histograms of an analysis as shares.

    >>> histogram = Histogram([0, 1, 2], {"test": [1, 3]}, {}, {}, {})
    >>> histogram_charts({"norm": histogram})[0].series
    (Line(name='test', x=[0.0, 1.0, 2.0], y=[0.25, 0.75]),)
    """
    charts = []
    for title, histogram in found.items():
        edges = _floats(histogram.edges)
        lines = [Line(name, edges, _shares(counts)) for name, counts in histogram.counts.items()]
        charts.append(Chart(title, tuple(lines)))
    return charts


def curve_charts(found: Mapping[str, Curve]) -> list[Chart]:
    """Return the curves of an analysis.

    >>> curve_charts({"moved": Curve([1, 2], {"test": [3, 4]})})[0].series
    (Line(name='test', x=[1.0, 2.0], y=[3.0, 4.0]),)
    """
    charts = []
    for title, curve in found.items():
        x = _floats(curve.x)
        lines = [Line(name, x, _floats(y)) for name, y in curve.y.items()]
        charts.append(Chart(title, tuple(lines), curve.x_label, curve.y_label))
    return charts


def _floats(values: Sequence[float]) -> list[float]:
    return [float(value) for value in values]


def _shares(counts: Sequence[int]) -> list[float]:
    total = math.fsum(counts) or 1.0
    return [count / total for count in counts]


def depth_charts(record: Record | None) -> list[Chart]:
    """Return a chart per metric: CTM at each depth and what the paper printed, layers by name."""
    if record is None or len(record.rows) < 2:  # a single layer makes no line
        return []
    layers = list(record.rows)
    x = [float(place) for place in range(len(layers))]
    charts = []
    for metric in (METRICS["auroc"], METRICS["fpr"]):
        ours, theirs = _at_depths(record, metric.name)
        lines = [Line("measured", x, ours), Line("published", x, theirs)]
        whole = tuple(line for line in lines if len(line.y) == len(layers))
        title = metric.title(record.protocol.tpr)
        charts.append(Chart(title, whole, names=tuple(layers)))
    return charts


def _at_depths(record: Record, metric: str) -> tuple[list[float], list[float]]:
    """Return what was measured at each depth, and what was published; absent ones are left out."""
    sets = record.covered(against=True)
    measures = [row.means(sets).get(metric) for row in record.rows.values()]
    ours = [measure.value for measure in measures if measure is not None]
    printed = [
        record.published[layer].average for layer in record.rows if layer in record.published
    ]
    return ours, [numbers[metric] for numbers in printed if metric in numbers]
