"""A comparison of detectors as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from typica.bench._compare import Comparison
from typica.bench._table import Table
from typica.metrics import METRICS


def comparison_table(compared: Mapping[str, Comparison], title: str = "") -> Table:
    """Return one row per detector: AUROC on each OOD set, their mean, FPR and costs; best first.

    Detectors that failed come last, and have no numbers.
    """
    measured = [name for name, row in compared.items() if row.evaluation is not None]
    table = Table("detector", measured, title)
    _add_results(table, [compared[name].evaluation for name in measured])
    mean = len(table.columns) - 2
    fit_seconds = [compared[name].fit_seconds for name in measured]
    table.add("fit s", fit_seconds, "number", "lower")
    microseconds = [compared[name].score_microseconds for name in measured]
    table.add("µs/row", microseconds, "number", "lower")
    table.sorted_by(mean)
    failed = [f"{name} (failed)" for name in compared if name not in measured]
    return table.add_empty_rows(failed)


def _add_results(table: Table, evaluations: Sequence[Any]) -> None:
    """Add AUROC on each OOD set, their mean, and the mean FPR."""
    auroc, fpr = METRICS["auroc"], METRICS["fpr"]
    sets = evaluations[0].ood if evaluations else {}
    for name in sets:
        table.add(name, [each.ood[name].auroc for each in evaluations], better=auroc.better)
    averages = [each.average for each in evaluations]
    table.add("mean", [average[auroc.name] for average in averages], better=auroc.better)
    table.add(fpr.heading, [average[fpr.name] for average in averages], better=fpr.better)
