"""The page's heat maps: methods by OOD sets, a colour behind each number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from typica.bench._record import Record
from typica.bench._table import best_of
from typica.metrics import METRICS

STRONG = 0.55  # from this goodness on the text turns to the page's colour


@dataclass(frozen=True)
class HeatCell:
    """A number, how good it is from 0 to 1, and whether it is the best of its column."""

    value: float | None
    good: float = 0.0
    best: bool = False

    @property
    def strong(self) -> bool:
        """Whether the colour behind the number is strong."""
        return self.good > STRONG


@dataclass(frozen=True)
class HeatMap:
    """Methods x OOD sets and their mean; worst, best: the ends of its colours."""

    metric: str
    title: str
    caption: str
    sets: Sequence[str]
    near: Sequence[str]
    rows: Sequence[tuple[str, Sequence[HeatCell]]]
    worst: float
    best: float


def heat_map(record: Record, name: str) -> HeatMap | None:
    """Return the heat map of a metric; a stronger colour is better. None without numbers."""
    metric = METRICS[name]
    columns: list[str | None] = [*record.sets, None]
    values = [_values(record, method, columns, name) for method in record.ranked]
    known = [value for value in chain(*values) if value is not None]
    if not known:
        return None
    ends = (min(known), max(known))
    worst, best = ends if metric.better == "higher" else ends[::-1]
    best_of_column = [best_of(column, metric.better) for column in zip(*values, strict=True)]
    rows = []
    for method, row in zip(record.ranked, values, strict=True):
        pairs = zip(row, best_of_column, strict=True)
        cells = [_heat_cell(value, worst, best, top) for value, top in pairs]
        rows.append((method, cells))
    title, label = metric.title(record.protocol.tpr), metric.label(record.protocol.tpr)
    caption = f"{label} in percent, methods by OOD sets"
    return HeatMap(name, title, caption, record.sets, record.near, rows, worst, best)


def _values(
    record: Record, method: str, columns: Sequence[str | None], metric: str
) -> list[float | None]:
    return [record.value(method, ood, metric) for ood in columns]


def _heat_cell(value: float | None, worst: float, best: float, top: float | None) -> HeatCell:
    if value is None:
        return HeatCell(None)
    good = abs(value - worst) / abs(best - worst) if best != worst else 1.0
    return HeatCell(value, good, value == top)
