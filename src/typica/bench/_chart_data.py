"""The charts of an analysis and of the layers, as the page's script and the plots draw them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from typica.as_json import finite_number
from typica.bench._measures import mapping
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


def histogram_charts(found: Any) -> Iterator[Chart]:
    """Read the histograms of an analysis as shares; what is malformed is passed over.

    They are {title: {set: {"edges", "counts"}}} or, with edges in common, {title: {"edges",
    "counts": {set: []}}}.

    >>> [chart] = histogram_charts({"norm": {"edges": [0, 1, 2], "counts": {"test": [1, 3]}}})
    >>> chart.series
    (Line(name='test', x=[0.0, 1.0, 2.0], y=[0.25, 0.75]),)
    """
    for title, chart in mapping(found).items():
        parts = mapping(chart)
        if isinstance(parts.get("counts"), Mapping):
            edges, by_set = parts.get("edges"), parts["counts"]
            parts = {name: {"edges": edges, "counts": counts} for name, counts in by_set.items()}
        lines = [_histogram(name, mapping(part)) for name, part in parts.items()]
        series = tuple(line for line in lines if line is not None)
        if series:
            yield Chart(title, series)


def _histogram(name: str, part: Mapping[str, Any]) -> Line | None:
    edges, counts = _chart_numbers(part.get("edges")), _chart_numbers(part.get("counts"))
    if not edges or not counts or len(edges) != len(counts) + 1:
        return None
    total = math.fsum(counts) or 1.0
    return Line(name, edges, [count / total for count in counts])


def curve_charts(found: Any) -> Iterator[Chart]:
    """Read the curves of an analysis; what is malformed is passed over.

    They are {title: {"x": [], "y" or "series": {name: []}, "x_label", "y_label"}}.

    >>> [chart] = curve_charts({"moved": {"x": [1, 2], "y": {"test": [3, 4]}}})
    >>> chart.series
    (Line(name='test', x=[1.0, 2.0], y=[3.0, 4.0]),)
    """
    for title, entry in mapping(found).items():
        chart = mapping(entry)
        lines = chart.get("series", chart.get("y"))
        by_name = lines if isinstance(lines, Mapping) else {title: lines}
        x = _chart_numbers(chart.get("x")) or []
        series = []
        for name, values in by_name.items():
            y = _chart_numbers(values)
            if y and len(y) == len(x):
                series.append(Line(name, x, y))
        if series:
            x_label, y_label = str(chart.get("x_label", "")), str(chart.get("y_label", ""))
            yield Chart(title, tuple(series), x_label, y_label)


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


def _chart_numbers(values: Any) -> list[float] | None:
    """Return the numbers along an axis of a chart; None for what is not a list of finite ones."""
    if not isinstance(values, list):
        return None
    found = [finite_number(value) for value in values]
    known = [value for value in found if value is not None]
    return known if len(known) == len(found) else None
