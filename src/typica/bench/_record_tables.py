"""The tables of an experiment's record, with published numbers beside if these are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from typica.bench import _analysis_tables
from typica.bench._measures import Measures, Numbers, mapping
from typica.bench._record import Record, coverage
from typica.bench._report_templates import capital
from typica.bench._skipped import with_reasons, with_tags
from typica.bench._table import Table, stacked
from typica.bench.published import publications
from typica.metrics import ACCURACY, AURC, E_AURC, METRICS, Metric, fpr_defined

SHOWN: Final = [METRICS[name] for name in ("fpr", "auroc", "aupr_in", "aupr_out")]
PRINTED: Final = ("fpr", "auroc")  # the metrics that were published
DIFFERENCE: Final = "diff"
ABLATION: Final = {"standard": "Standard (max logit)", "cw": "CW", "cm": "CM (CTM)"}


def tables_of(record: Record, *, against: str | None = None) -> list[Table]:
    """Return the tables of an experiment's record.

    against: whose published numbers to put beside, "paper" or another of
    `typica.bench.published.publications()`; none are added if the record has none of these.
    """
    if record.analysis is not None:
        return _analysis_tables.tables(record.analysis)
    asked = record.beside(against)
    beside = (record.published_by, DIFFERENCE)
    if record.experiment in _OTHERS:
        table = _OTHERS[record.experiment](record, asked)
        return [table.without_empty(beside)]
    comparable = asked and bool(record.in_common)
    table = (_detail if record.experiment == "detail" else _main)(record, comparable)
    if asked and not comparable:
        publisher = capital(record.publisher)
        table.notes.insert(0, f"{publisher} has none of these OOD sets to compare with.")
    if comparable:
        table.notes += _of_publication(record)
    return [table.without_empty(beside)]


def metric_table(
    record: Record,
    metrics: Iterable[Metric],
    ours: Mapping[str, Measures],
    theirs: Mapping[str, Numbers] | None = None,
) -> Table:
    """Return one row per method: its metrics and, beside those that were published, these.

    A method with published numbers only gets a row too.
    """
    printed = theirs or {}
    names = [*ours, *(name for name in printed if name not in ours)]
    table = Table("method", names)
    own = [ours.get(name, {}) for name in names]
    beside = None if theirs is None else [printed.get(name, {}) for name in names]
    add_metrics(table, record, metrics, own, beside)
    return table


def add_metrics(
    table: Table,
    record: Record,
    metrics: Iterable[Metric],
    ours: Sequence[Measures],
    theirs: Sequence[Numbers] | None,
) -> None:
    """Add a column per metric, one entry per row, with the published one and the difference."""
    for metric in metrics:
        own = [measures.get(metric.name) for measures in ours]
        table.add(metric.title(record.protocol.tpr), own, better=metric.better)
        if theirs is None or metric.name not in PRINTED:
            continue
        _add_beside(table, record, [numbers.get(metric.name) for numbers in theirs])


def _add_beside(table: Table, record: Record, published: Sequence[float | None]) -> None:
    """Add a column of published numbers, and one of the differences of the last column from it."""
    table.add(record.published_by, published)
    table.add(DIFFERENCE, table.minus(-2, -1), kind="difference")


def average_table(
    record: Record, sets: Sequence[str], metrics: Iterable[Metric], *, against: bool
) -> Table:
    """Return one row per method: its mean over these OOD sets, and the published one over them."""
    ours = {name: record.means(name, sets) for name in record.rows}
    theirs = {name: printed_of(record, name, sets) for name in record.rows} if against else None
    return metric_table(record, metrics, ours, theirs)


def printed_of(record: Record, name: str, sets: Sequence[str]) -> Numbers:
    """Return the published means of a row over these OOD sets; {} where some were not printed."""
    return record.published[name].mean(sets) if name in record.published else {}


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
    table = _means(record, against)
    table.add_empty_rows(with_tags(record.skipped, record.empty_rows))
    notes = [*_left_out(record, against), fpr_note(record), *_neighbours(record)]
    table.notes = [*notes, *with_reasons(record.skipped)]
    return table


def _means(record: Record, against: bool) -> Table:
    """Return the means over all OOD sets, or a section for each of several published means."""
    parts = record.compared if against else []
    if len(parts) < 2 or not record.rows:
        sets = record.covered(against=against)
        table = average_table(record, sets, SHOWN, against=against)
        table.title = f"{record.title}: {coverage(sets, record.sets)}"
        return table
    sections = {}
    for sets in parts:
        heading = capital(coverage(sets, sets, _kind(record, sets)))
        sections[heading] = average_table(record, sets, SHOWN, against=True)
    return stacked(sections, record.title)


def _kind(record: Record, sets: Sequence[str]) -> str:
    """Return what to call these OOD sets: near, far, or a mixture."""
    near = [name in record.near for name in sets]
    if all(near):
        return "near OOD"
    return "OOD" if any(near) else "far OOD"


def _of_publication(record: Record) -> list[str]:
    """Say below a table where its published numbers were read, and what to know about them."""
    known = publications().get(record.published_by)
    if known is None:
        return []
    notes = [f"{record.published_by}: {known.source}."]
    return [*notes, known.note] if known.note else notes


def _detail(record: Record, against: bool) -> Table:
    near = [name for name in record.sets if name in record.near]
    kinds = {"far": [name for name in record.sets if name not in near], "near": near}
    sections = _each_set(record, kinds, against)
    for heading, sets in _averages_of(record, kinds, against).items():
        if record.rows:
            sections[heading] = average_table(record, sets, SHOWN, against=against)
    absent = [name for name in record.skipped if name in record.absent]
    if absent:
        empty = metric_table(record, SHOWN, {}, {} if against else None)
        sections["not measured"] = empty.add_empty_rows(with_tags(record.skipped, absent))
    table = stacked(sections, f"{record.title}: each OOD set")
    table.notes = [fpr_note(record), *with_reasons(record.skipped)]
    return table


def _each_set(
    record: Record, kinds: Mapping[str, Sequence[str]], against: bool
) -> dict[str, Table]:
    """Return the table of each OOD set under its heading, far ones first."""
    sections = {}
    for kind, sets in kinds.items():
        for name in sets:
            heading = f"{name} ({kind}, {record.n.get(name)} inputs)"
            sections[heading] = _on_set(record, name, against)
    return sections


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
    for sets in record.compared if against else []:
        if sets not in averages.values():
            heading = f"{coverage(sets, record.sets)}, which {record.publisher} has too"
            averages[heading] = sets
    return averages


def _ablation(record: Record, against: bool) -> Table:
    table = Table("score", [ABLATION.get(name, name) for name in record.rows])
    accuracies = [record.accuracy.get(name) for name in record.rows]
    table.add(ACCURACY.heading, accuracies, better=ACCURACY.better)
    printed = _printed_averages(record)
    if against:
        _add_beside(table, record, [numbers.get(ACCURACY.name) for numbers in printed])
    _add_mean(table, record, METRICS["auroc"], against)
    if against:
        table.add(record.published_by, [numbers.get("auroc") for numbers in printed])
    _add_mean(table, record, METRICS["fpr"], against)
    _finish(table, record, "logits, cosines to weights, cosines to class means", against)
    if against:
        table.notes.insert(
            0, "The paper's AUROC of Standard is not that of any row of its main table."
        )
    return table


def _layers(record: Record, against: bool) -> Table:
    table = Table("layer", record.rows)
    printed = _printed_averages(record)
    for name in ("fpr", "auroc"):
        _add_mean(table, record, METRICS[name], against)
        if against:
            table.add(record.published_by, [numbers.get(name) for numbers in printed])
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
    """Add the rows that could not be measured, the title, and what to know about the averages."""
    sets = record.covered(against=against)
    table.add_empty_rows(_skipped_rows(record))
    table.title = f"{record.title}: {what}; {coverage(sets, record.sets)}"
    table.notes = [*_left_out(record, against), fpr_note(record), *with_reasons(record.skipped)]
    printed = max((entry.of for entry in record.published.values()), default=0)
    # From what is printed, no average over fewer sets can be computed.
    if against and len(record.in_common) != printed:
        table.notes.insert(0, f"The paper's means are those of its {printed or 'own'} OOD sets.")


def _mistakes(record: Record, against: bool) -> Table:
    table = Table("method", record.rows, f"{record.title}: ranking the network's own mistakes")
    rows = record.rows.values()
    table.add(AURC.heading, [row.aurc for row in rows], "milli", AURC.better)
    table.add(E_AURC.heading, [row.e_aurc for row in rows], "milli", E_AURC.better)
    table.add_empty_rows(_skipped_rows(record))
    accuracy = record.accuracy.get("standard")
    known = "" if accuracy is None else f" (accuracy {100 * accuracy:.2f} %)"
    note = (
        f"Area under the risk-coverage curve in thousandths, on {record.n.get('test')} ID test "
        f"inputs{known}; E-AURC: above the least that any score reaches."
    )
    table.notes = [note, *with_reasons(record.skipped)]
    return table


def _left_out(record: Record, against: bool) -> list[str]:
    """Say which of the measured OOD sets an average beside a published one does not cover."""
    covered = record.covered(against=against)
    out = [name for name in record.sets if name not in covered]
    if not out:
        return []
    return [f"Not in the means, as {record.publisher} has no such set: {', '.join(out)}."]


def _skipped_rows(record: Record) -> list[str]:
    """Return a record's rows that are empty, without the OOD sets that are absent."""
    rows = [name for name in record.empty_rows if name not in record.absent]
    return with_tags(record.skipped, rows)


def _neighbours(record: Record) -> list[str]:
    """Say how many neighbours each method that has any was given, or chose."""
    notes = []
    for name, row in record.rows.items():
        if "k" in row.params:
            grid = mapping(row.params.get("k_grid"))
            chosen = f", chosen among {', '.join(grid)} on training rows" if grid else ""
            notes.append(f"{name}: k={row.params['k']}{chosen}")
    return notes


_OTHERS: Final[Mapping[str, Callable[[Record, bool], Table]]] = {
    "ablation": _ablation,
    "layers": _layers,
    "misclassification": _mistakes,
}
