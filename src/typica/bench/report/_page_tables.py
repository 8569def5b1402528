"""The page's own tables: averages, details and parameters."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, product
from typing import Final

from typica.bench._record import Record, coverage
from typica.bench._record_tables import DIFFERENCE, PRINTED, add_metrics, metric_table
from typica.bench._report_templates import capital, plain
from typica.bench._table import Better, Table
from typica.bench.published import PAPER
from typica.metrics import METRICS, Metric

ORDER: Final = [
    METRICS[name] for name in ("auroc", "fpr", "aupr_in", "aupr_out", "detection_error")
]


def main_table(record: Record) -> Table:
    """Return a row per method: its mean over all OOD sets, beside what was published of them."""
    against = record.compared == [record.sets]
    title = f"{capital(coverage(record.sets, record.sets))}, in percent"
    return _averages(record, title, record.sets, ORDER, against=against)


def published_tables(record: Record) -> list[Table]:
    """Return a row per method: means over the OOD sets that were published too, ours and theirs.

    One table for each mean that was published; none where the sets are all, or none.
    """
    tables = []
    for sets in record.compared:
        if sets and set(sets) != set(record.sets):
            title = f"Beside the published numbers: {coverage(sets, record.sets)}, in percent"
            tables.append(_averages(record, title, sets, ORDER[:2], against=True))
    return tables


def _averages(
    record: Record, title: str, sets: Sequence[str], metrics: Sequence[Metric], *, against: bool
) -> Table:
    """Return the page's means over these OOD sets and what was published of them, best first."""
    ours = {name: record.means(name, sets) for name in record.ranked}
    theirs = None
    if against:
        means = {name: printed.mean(sets) for name, printed in record.published.items()}
        theirs = {name: numbers for name, numbers in means.items() if numbers}
    table = metric_table(record, record.measured(metrics), ours, theirs)
    table.title = title
    beside = (record.published_by, DIFFERENCE)
    return table.without_empty(beside).rename(headings(record.published_by)).sorted_by(1)


def headings(published_by: str = PAPER) -> dict[str, str]:
    """Return what columns are called on the page."""
    return {"method": "Method", published_by: "published", DIFFERENCE: "difference"}


def detail_table(record: Record) -> Table:
    """Return a row per method and OOD set, with what was published."""
    pairs = list(product(record.ranked, record.sets))
    table = Table("Method", [method for method, _ in pairs])
    table.title = "Each method on each OOD set, in percent"
    near = dict.fromkeys(record.near, "near")
    table.add("OOD set", [ood for _, ood in pairs], "text", tags=near)
    ours = [record.rows[method].on(ood) for method, ood in pairs]
    theirs = []
    for method, ood in pairs:
        printed = record.published.get(method)
        theirs.append({} if printed is None else printed.on(ood))
    shown = set(PRINTED).intersection(chain.from_iterable(theirs))
    metrics = record.measured(ORDER)
    add_metrics(table, record, metrics, ours, theirs if shown else None)
    return table.rename(headings(record.published_by))


def parameter_table(record: Record) -> Table | None:
    """Return the parameters of each method, or None if none has any."""
    names = [name for name in record.ranked if record.rows[name].params]
    if not names:
        return None
    table = Table("Method", names, "Parameters")
    return table.add("Parameters", [plain(record.rows[name].params) for name in names], "text")


def best_row(record: Record, name: str, sets: Sequence[str]) -> tuple[str, float] | None:
    """Return the row with the best mean of a metric over these OOD sets, and that mean.

    None if there is no number.
    """
    better: Better = METRICS[name].better
    means = {row: record.means(row, sets).get(name) for row in record.ranked}
    known = {row: mean.value for row, mean in means.items() if mean is not None}
    if not known:
        return None
    choose = max if better == "higher" else min
    row = choose(known, key=lambda row: known[row])
    return row, known[row]
