"""Tables of an experiment's document, with the paper's numbers beside where these are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from typica.bench import analysis_tables
from typica.bench.averages import (
    average_over,
    coverage,
    measured_sets,
    paper_average,
    sets_in_common,
)
from typica.bench.cells import Cell, Column, Table
from typica.metrics import CONVENTIONS

TAGS = ("needs images", "needs a head", "absent")
METRICS = {
    "fpr": "FPR{tpr} ↓",
    "auroc": "AUROC ↑",
    "aupr_in": "AUPR-in ↑",
    "aupr_out": "AUPR-out ↑",
}


def tables_of(document: Mapping[str, Any], *, against_paper: bool = False) -> list[Table]:
    """Return the tables of an experiment's document, with the paper's numbers and the differences if asked for."""
    experiment = document["experiment"]
    if experiment == "analysis":
        return analysis_tables.tables(document)
    against = against_paper and bool(document["published"])
    if experiment in _OTHERS:
        return [_OTHERS[experiment](document, against)]
    made = (_detail if experiment == "detail" else _main)(
        document, against and bool(_in_common(document))
    )
    if against and not _in_common(document):
        made = replace(
            made, notes=("The paper has none of these OOD sets to compare with.", *made.notes)
        )
    return [made]


def fpr_note(document: Mapping[str, Any]) -> str:
    """Say how FPR is defined and what was averaged."""
    protocol, n = document["protocol"], document["n"]
    cut = not protocol["full"] and max(n[name] for name in measured_sets(document)) > n["test"]
    drawn = f"OOD sets larger than the ID test set: mean of {protocol['subsets']} random subsets of its size"
    parts = (
        f"{drawn} (seed {protocol['seed']}), ± their deviation" if cut else "OOD sets taken whole"
    )
    return (
        f"In percent. {parts}. FPR: share of OOD inputs accepted when {100 * protocol['tpr']:g} % of ID are kept "
        f"(convention '{protocol['convention']}': {CONVENTIONS[protocol['convention']]})"
    )


def tag_of(reason: str) -> str:
    """Return in a word or two why a row is empty.

    >>> tag_of("needs images: run with --data"), tag_of("KNN.fit: k=50 exceeds the 12 training rows")
    ('needs images', 'failed')
    """
    return next((tag for tag in TAGS if reason.startswith(tag)), "failed")


def _main(document: Mapping[str, Any], against: bool) -> Table:
    columns = _metric_columns(document, against)
    names = _covered(document, against)
    rows = [*_average_rows(document, names, against), *_skipped_rows(document, len(columns))]
    title = f"{document['title']}: {coverage(names, measured_sets(document))}"
    notes = (*_left_out(document, against), fpr_note(document), *_reasons(document))
    return Table(title, tuple(columns), (("", _marked(rows, columns)),), notes)


def _detail(document: Mapping[str, Any], against: bool) -> Table:
    results, printed, near = document["results"], document["published"], document["near"]
    columns = _metric_columns(document, against)
    sets = measured_sets(document)
    kinds = {
        "far": [name for name in sets if name not in near],
        "near": [name for name in sets if name in near],
    }
    sections = []
    for kind, names in kinds.items():
        for name in names:
            rows = [
                _metric_row(
                    method, record["ood"][name], printed.get(method, {}).get(name, {}), against
                )
                for method, record in results.items()
            ]
            rows += _skipped_rows(document, len(columns), sets=False)
            sections.append(
                (f"{name} ({kind}, {document['n'][name]} inputs)", _marked(rows, columns))
            )
    averages = {
        coverage(names, names, f"{kind} OOD"): names
        for kind, names in kinds.items()
        if len(names) > 1
    }
    common = _in_common(document)
    if against and common not in averages.values():
        averages[f"{coverage(common, sets)}, which the paper has too"] = common
    for heading, names in averages.items():
        rows = _average_rows(document, names, against)
        sections += [(heading, _marked(rows, columns))] if rows else []
    absent = [
        row for row in _skipped_rows(document, len(columns)) if _is_set(document, str(row[0].value))
    ]
    if absent:
        sections.append(("not measured", _marked(absent, columns)))
    title = f"{document['title']}: each OOD set"
    notes = (fpr_note(document), *_reasons(document))
    return Table(title, tuple(columns), tuple(sections), notes)


def _ablation(document: Mapping[str, Any], against: bool) -> Table:
    columns = [Column("score", "text"), Column("accuracy ↑")]
    columns += [Column("paper"), Column("diff", "difference")] if against else []
    columns += [Column("AUROC ↑"), *([Column("paper")] if against else []), Column(_fpr(document))]
    rows = []
    titles = {"standard": "Standard (max logit)", "cw": "CW", "cm": "CM (CTM)"}
    for row, record in document["results"].items():
        paper = document["published"].get(row, {}).get("average", {})
        average = average_over(record, _covered(document, against))
        cells = [Cell(titles[row]), Cell(document["accuracy"].get(row))]
        if against:
            cells += [
                Cell(paper.get("accuracy")),
                _difference(document["accuracy"].get(row), paper.get("accuracy")),
            ]
        cells.append(Cell(average["auroc"], average["auroc_std"]))
        cells += [Cell(paper.get("auroc"))] if against else []
        rows.append([*cells, Cell(average["fpr"], average["fpr_std"])])
    made = _averages(
        document, "logits, cosines to weights, cosines to class means", columns, rows, against
    )
    caveat = "The paper's Standard has the AUROC of no row of its main table."
    return replace(made, notes=(caveat, *made.notes)) if against else made


def _layers(document: Mapping[str, Any], against: bool) -> Table:
    columns = [
        Column("layer", "text"),
        Column(_fpr(document)),
        *([Column("paper")] if against else []),
    ]
    columns += [Column("AUROC ↑"), *([Column("paper")] if against else [])]
    rows = []
    for layer, record in document["results"].items():
        paper = document["published"].get(layer, {}).get("average", {})
        average = average_over(record, _covered(document, against))
        cells = [Cell(layer)]
        for metric in ("fpr", "auroc"):
            cells.append(Cell(average[metric], average[f"{metric}_std"]))
            cells += [Cell(paper.get(metric))] if against else []
        rows.append(cells)
    return _averages(document, "CTM at each depth", columns, rows, against)


def _averages(
    document: Mapping[str, Any],
    what: str,
    columns: list[Column],
    rows: list[list[Cell]],
    against: bool,
) -> Table:
    """Return a table of averages with the rows that could not be measured, and what to know of its numbers."""
    rows = [*rows, *_skipped_rows(document, len(columns), sets=False)]
    names = _covered(document, against)
    entries = [entry.get("common", {}) for entry in document["published"].values()]
    printed = max((common.get("of", 0) for common in entries), default=0)
    notes = [*_left_out(document, against), fpr_note(document), *_reasons(document)]
    if (
        against and len(_in_common(document)) != printed
    ):  # no average over fewer can be had from what is printed
        notes.insert(0, f"The paper's means are those of its {printed or 'own'} OOD sets.")
    title = f"{document['title']}: {what}; {coverage(names, measured_sets(document))}"
    return Table(title, tuple(columns), (("", _marked(rows, columns)),), tuple(notes))


def _mistakes(document: Mapping[str, Any], against: bool) -> Table:
    columns = [Column("method", "text"), Column("AURC ‰ ↓", "milli"), Column("E-AURC ‰ ↓", "milli")]
    rows = [
        [Cell(m), Cell(r.get("aurc")), Cell(r.get("e_aurc"))]
        for m, r in document["results"].items()
    ]
    rows += _skipped_rows(document, len(columns), sets=False)
    accuracy = document["accuracy"].get("standard")
    known = "" if accuracy is None else f" (accuracy {100 * accuracy:.2f} %)"
    note = (
        f"Area under the risk-coverage curve in thousandths, on {document['n']['test']} ID test inputs{known}; "
        "E-AURC: above the least that any score reaches."
    )
    title = f"{document['title']}: ranking the network's own mistakes"
    return Table(
        title, tuple(columns), (("", _marked(rows, columns)),), (note, *_reasons(document))
    )


def _metric_columns(document: Mapping[str, Any], against: bool) -> list[Column]:
    beside = [Column("paper"), Column("diff", "difference")] if against else []
    columns = [Column("method", "text")]
    for metric, heading in METRICS.items():
        columns += [Column(heading.format(tpr=f"{100 * document['protocol']['tpr']:g}"))]
        columns += beside if metric in ("fpr", "auroc") else []
    return columns


def _metric_row(
    name: str, ours: Mapping[str, Any], paper: Mapping[str, float], against: bool
) -> list[Cell]:
    cells = [Cell(name)]
    for metric in METRICS:
        cells.append(Cell(ours[metric], ours.get(f"{metric}_std", 0.0)))
        if against and metric in ("fpr", "auroc"):
            cells += [Cell(paper.get(metric)), _difference(ours[metric], paper.get(metric))]
    return cells


def _average_rows(
    document: Mapping[str, Any], names: Sequence[str], against: bool
) -> list[list[Cell]]:
    """Return a row a method: its mean over these OOD sets, and the paper's over the same."""
    near = set(document["near"])
    kind = (
        "near"
        if set(names) == near
        else "far"
        if set(names) == set(measured_sets(document)) - near
        else ""
    )
    rows = []
    for method, record in document["results"].items():
        paper = paper_average(document["published"].get(method, {}), names)
        rows.append(
            _metric_row(method, record.get(kind) or average_over(record, names), paper, against)
        )
    return rows


def _difference(ours: float | None, paper: float | None) -> Cell:
    return Cell(None if ours is None or paper is None else ours - paper)


def _in_common(document: Mapping[str, Any]) -> list[str]:
    return sets_in_common(document["published"], measured_sets(document))


def _covered(document: Mapping[str, Any], against: bool) -> list[str]:
    """Return the OOD sets of an average: all, or beside the paper's those that it has too, if there are any."""
    return (_in_common(document) if against else []) or measured_sets(document)


def _left_out(document: Mapping[str, Any], against: bool) -> list[str]:
    """Say which of the measured OOD sets an average beside the paper's does not cover."""
    out = [name for name in measured_sets(document) if name not in _covered(document, against)]
    return [f"Not in the means, for the paper has no such set: {', '.join(out)}."] if out else []


def _skipped_rows(
    document: Mapping[str, Any], width: int, *, sets: bool = True
) -> list[list[Cell]]:
    chosen = {k: why for k, why in document["skipped"].items() if sets or not _is_set(document, k)}
    return [
        [Cell(f"{name}: {tag_of(why)}"), *[Cell()] * (width - 1)] for name, why in chosen.items()
    ]


def _is_set(document: Mapping[str, Any], name: str) -> bool:
    return name.partition(":")[0] in document.get("absent", ())


def _reasons(document: Mapping[str, Any]) -> list[str]:
    """Say what is empty and why, those that differ in nothing but the name together."""
    alike: dict[str, list[str]] = {}
    for name, why in document["skipped"].items():
        alike.setdefault(why.replace(name, "NAME"), []).append(name)
    texts = {
        names[0]: document["skipped"][names[0]] if len(names) == 1 else why
        for why, names in alike.items()
    }
    return [f"{', '.join(names)}: {texts[names[0]]}" for names in alike.values()]


def _fpr(document: Mapping[str, Any]) -> str:
    return METRICS["fpr"].format(tpr=f"{100 * document['protocol']['tpr']:g}")


def _marked(
    rows: Iterable[Sequence[Cell]], columns: Sequence[Column]
) -> tuple[tuple[Cell, ...], ...]:
    """Return the rows with the best of each measured column marked; all of them, where several are equal."""
    marked = [list(row) for row in rows]
    for i, column in enumerate(columns):
        values = [row[i].value for row in marked]
        numbers = [value for value in values if isinstance(value, float)]
        if numbers and ("↑" in column.heading or column.lower_is_better):
            best = min(numbers) if column.lower_is_better else max(numbers)
            for row in marked:
                row[i] = replace(row[i], best=row[i].value == best)
    return tuple(tuple(row) for row in marked)


_OTHERS = {"ablation": _ablation, "layers": _layers, "misclassification": _mistakes}
