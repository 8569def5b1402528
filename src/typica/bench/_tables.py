"""The tables of an experiment's record, with the paper's numbers beside if these are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from typica.bench import _analysis_tables
from typica.bench._measures import Measures, Numbers
from typica.bench._record import Record, coverage
from typica.bench._table import Table, stacked
from typica.metrics import METRICS, Metric, fpr_defined

SHOWN: Final = [METRICS[name] for name in ("fpr", "auroc", "aupr_in", "aupr_out")]
IN_PAPER: Final = ("fpr", "auroc")  # the metrics that the paper printed
BESIDE: Final = ("paper", "diff")  # headings of the columns that hold its numbers
ABLATION: Final = {"standard": "Standard (max logit)", "cw": "CW", "cm": "CM (CTM)"}


def tables_of(record: Record, *, against_paper: bool = False) -> list[Table]:
    """Return the tables of an experiment's record, beside the paper's numbers if asked for."""
    if record.analysis is not None:
        return _analysis_tables.tables(record.analysis)
    against = against_paper and bool(record.published)
    if record.experiment in _OTHERS:
        table = _OTHERS[record.experiment](record, against)
        return [table.without_empty(BESIDE)]
    comparable = against and bool(record.in_common)
    table = (_detail if record.experiment == "detail" else _main)(record, comparable)
    if against and not comparable:
        table.notes.insert(0, "The paper has none of these OOD sets to compare with.")
    return [table.without_empty(BESIDE)]


def metric_table(
    record: Record,
    metrics: Iterable[Metric],
    ours: Mapping[str, Measures],
    theirs: Mapping[str, Numbers] | None = None,
) -> Table:
    """Return one row per method: its metrics and, beside those that the paper has, the paper's.

    A method that only the paper has gets its row too.
    """
    printed = theirs or {}
    names = [*ours, *(name for name in printed if name not in ours)]
    table = Table("method", names)
    own = [ours.get(name, {}) for name in names]
    beside = None if theirs is None else [printed.get(name, {}) for name in names]
    add_metrics(table, record.protocol.tpr, metrics, own, beside)
    return table


def add_metrics(
    table: Table,
    tpr: float,
    metrics: Iterable[Metric],
    ours: Sequence[Measures],
    theirs: Sequence[Numbers] | None,
) -> None:
    """Add a column per metric, one entry per row, with the paper's and the difference beside."""
    for metric in metrics:
        own = [measures.get(metric.name) for measures in ours]
        table.add(metric.title(tpr), own, better=metric.better)
        if theirs is None or metric.name not in IN_PAPER:
            continue
        table.add("paper", [numbers.get(metric.name) for numbers in theirs])
        table.add("diff", table.minus(-2, -1), kind="difference")


def average_table(
    record: Record, sets: Sequence[str], metrics: Iterable[Metric], *, against: bool
) -> Table:
    """Return one row per method: its mean over these OOD sets, and the paper's over the same."""
    ours = {name: record.means(name, sets) for name in record.rows}
    theirs = {name: printed_of(record, name, sets) for name in record.rows} if against else None
    return metric_table(record, metrics, ours, theirs)


def printed_of(record: Record, name: str, sets: Sequence[str]) -> Numbers:
    """Return the paper's means of a row over these OOD sets; {} where it has not got them all."""
    return record.published[name].means(sets) if name in record.published else {}


def fpr_note(record: Record) -> str:
    """Say how FPR is defined and what was averaged."""
    protocol, n = record.protocol, record.n
    parts = "OOD sets taken whole"
    largest = max((n.get(name, 0) for name in record.sets), default=0)
    if not protocol.full and largest > n.get("test", 0):
        parts = (
            f"OOD sets larger than the ID test set: mean of {protocol.subsets} random subsets of "
            f"its size (seed {protocol.seed}), ± their deviation, which is not the error of the "
            "result"
        )
    return f"In percent. {parts}. {fpr_defined(protocol.tpr, protocol.convention)}"


def _main(record: Record, against: bool) -> Table:
    sets = record.covered(against=against)
    table = average_table(record, sets, SHOWN, against=against)
    table.add_empty_rows(_skipped(record, record.skipped))
    table.title = f"{record.title}: {coverage(sets, record.sets)}"
    notes = [*_left_out(record, against), fpr_note(record), *_neighbours(record)]
    table.notes = [*notes, *_reasons(record)]
    return table


def _detail(record: Record, against: bool) -> Table:
    sections: dict[str, Table] = {}
    near = [name for name in record.sets if name in record.near]
    kinds = {"far": [name for name in record.sets if name not in near], "near": near}
    for kind, sets in kinds.items():
        for name in sets:
            heading = f"{name} ({kind}, {record.n.get(name)} inputs)"
            sections[heading] = _on_set(record, name, against)
    for heading, sets in _averages_of(record, kinds, against).items():
        if record.rows:
            sections[heading] = average_table(record, sets, SHOWN, against=against)
    absent = [name for name in record.skipped if name in record.absent]
    if absent:
        empty = metric_table(record, SHOWN, {}, {} if against else None)
        sections["not measured"] = empty.add_empty_rows(_skipped(record, absent))
    table = stacked(sections, f"{record.title}: each OOD set")
    table.notes = [fpr_note(record), *_reasons(record)]
    return table


def _on_set(record: Record, name: str, against: bool) -> Table:
    ours = {method: row.on(name) for method, row in record.rows.items()}
    theirs = None
    if against:
        entries = {method: record.published.get(method) for method in record.rows}
        theirs = {method: entry.on(name) if entry else {} for method, entry in entries.items()}
    table = metric_table(record, SHOWN, ours, theirs)
    return table.add_empty_rows(_skipped_rows(record))


def _averages_of(
    record: Record, kinds: Mapping[str, list[str]], against: bool
) -> dict[str, list[str]]:
    """Return which OOD sets are averaged, under which heading."""
    averages = {}
    for kind, sets in kinds.items():
        if len(sets) > 1:
            averages[coverage(sets, sets, f"{kind} OOD")] = sets
    common = record.in_common
    if against and common not in averages.values():
        averages[f"{coverage(common, record.sets)}, which the paper has too"] = common
    return averages


def _ablation(record: Record, against: bool) -> Table:
    table = Table("score", [ABLATION.get(name, name) for name in record.rows])
    table.add("accuracy", [record.accuracy.get(name) for name in record.rows], better="higher")
    printed = _printed_averages(record)
    if against:
        table.add("paper", [numbers.get("accuracy") for numbers in printed])
        table.add("diff", table.minus(-2, -1), kind="difference")
    _add_mean(table, record, METRICS["auroc"], against)
    if against:
        table.add("paper", [numbers.get("auroc") for numbers in printed])
    _add_mean(table, record, METRICS["fpr"], against)
    _finish(table, record, "logits, cosines to weights, cosines to class means", against)
    if against:
        table.notes.insert(0, "The paper's Standard has the AUROC of no row of its main table.")
    return table


def _layers(record: Record, against: bool) -> Table:
    table = Table("layer", record.rows)
    printed = _printed_averages(record)
    for name in ("fpr", "auroc"):
        _add_mean(table, record, METRICS[name], against)
        if against:
            table.add("paper", [numbers.get(name) for numbers in printed])
    _finish(table, record, "CTM at each depth", against)
    return table


def _printed_averages(record: Record) -> list[Numbers]:
    entries = [record.published.get(name) for name in record.rows]
    return [entry.average if entry else {} for entry in entries]


def _add_mean(table: Table, record: Record, metric: Metric, against: bool) -> None:
    sets = record.covered(against=against)
    means = [row.means(sets).get(metric.name) for row in record.rows.values()]
    table.add(metric.title(record.protocol.tpr), means, better=metric.better)


def _finish(table: Table, record: Record, what: str, against: bool) -> None:
    """Add the rows that could not be measured, the title, and what to know of the averages."""
    sets = record.covered(against=against)
    table.add_empty_rows(_skipped_rows(record))
    table.title = f"{record.title}: {what}; {coverage(sets, record.sets)}"
    table.notes = [*_left_out(record, against), fpr_note(record), *_reasons(record)]
    printed = max((entry.common.of or 0 for entry in record.published.values()), default=0)
    # No average over fewer sets can be had from what is printed.
    if against and len(record.in_common) != printed:
        table.notes.insert(0, f"The paper's means are those of its {printed or 'own'} OOD sets.")


def _mistakes(record: Record, against: bool) -> Table:
    table = Table("method", record.rows, f"{record.title}: ranking the network's own mistakes")
    rows = record.rows.values()
    table.add("AURC ‰", [row.aurc for row in rows], "milli", "lower")
    table.add("E-AURC ‰", [row.e_aurc for row in rows], "milli", "lower")
    table.add_empty_rows(_skipped_rows(record))
    accuracy = record.accuracy.get("standard")
    known = "" if accuracy is None else f" (accuracy {100 * accuracy:.2f} %)"
    note = (
        f"Area under the risk-coverage curve in thousandths, on {record.n.get('test')} ID test "
        f"inputs{known}; E-AURC: above the least that any score reaches."
    )
    table.notes = [note, *_reasons(record)]
    return table


def _left_out(record: Record, against: bool) -> list[str]:
    """Say which of the measured OOD sets an average beside the paper's does not cover."""
    covered = record.covered(against=against)
    out = [name for name in record.sets if name not in covered]
    return [f"Not in the means, for the paper has no such set: {', '.join(out)}."] if out else []


def _skipped_rows(record: Record) -> list[str]:
    """Return the rows that are empty, without the OOD sets that are absent."""
    return _skipped(record, [name for name in record.skipped if name not in record.absent])


def _skipped(record: Record, names: Iterable[str]) -> list[str]:
    """Return what is empty, each with a word why."""
    return [f"{name}: {record.skipped[name].tag}" for name in names]


def _neighbours(record: Record) -> list[str]:
    """Say how many neighbours each method that has any was given, or chose."""
    notes = []
    for name, row in record.rows.items():
        if "k" in row.params:
            grid = row.params.get("k_grid")
            chosen = f", chosen among {', '.join(grid)} on training rows" if grid else ""
            notes.append(f"{name}: k={row.params['k']}{chosen}")
    return notes


def _reasons(record: Record) -> list[str]:
    """Say what is empty and why, those that differ in nothing but the name together."""
    alike: dict[str, list[str]] = {}
    for name, reason in record.skipped.items():
        alike.setdefault(str(reason).replace(name, "NAME"), []).append(name)
    reasons = []
    for why, names in alike.items():
        said = why if len(names) > 1 else str(record.skipped[names[0]])
        reasons.append(f"{', '.join(names)}: {said}")
    return reasons


_OTHERS: Final[Mapping[str, Callable[[Record, bool], Table]]] = {
    "ablation": _ablation,
    "layers": _layers,
    "misclassification": _mistakes,
}
