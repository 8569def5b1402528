"""Tables of an experiment's document, with the paper's numbers beside where these are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from typica.bench import analysis_tables
from typica.bench.cells import Cell, Column, Table
from typica.metrics import CONVENTIONS

TAGS = ("needs images", "needs a head", "absent")
METRICS = {"fpr": "FPR{tpr} ↓", "auroc": "AUROC ↑", "aupr_in": "AUPR-in ↑", "aupr_out": "AUPR-out ↑"}


def tables_of(document: Mapping[str, Any], *, against_paper: bool = False) -> list[Table]:
    """Return the tables of an experiment's document, with the paper's numbers and the differences if asked for."""
    experiment = document["experiment"]
    if experiment == "analysis":
        return analysis_tables.tables(document)
    maker = {"detail": _detail, "ablation": _ablation, "layers": _layers, "misclassification": _mistakes}
    return [maker.get(experiment, _main)(document, against_paper and bool(document["published"]))]


def fpr_note(document: Mapping[str, Any]) -> str:
    """Say how FPR is defined and what was averaged."""
    protocol, n = document["protocol"], document["n"]
    cut = not protocol["full"] and max(n[name] for name in _sets(document)) > n["test"]
    drawn = f"OOD sets larger than the ID test set: mean of {protocol['subsets']} random subsets of its size"
    parts = f"{drawn} (seed {protocol['seed']}), ± their deviation" if cut else "OOD sets taken whole"
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
    results, printed = document["results"], document["published"]
    columns = _metric_columns(document, against)
    names = _common(document) if against else _sets(document)
    rows = []
    for method, record in results.items():
        whole = set(names) == set(record["ood"])
        ours = record["average"] if whole else _mean_over(record["ood"], names)
        common = printed.get(method, {}).get("common", {})
        rows.append(_metric_row(method, ours, common, against))
    rows += _skipped_rows(document, len(columns))
    title = f"{document['title']}: average over {', '.join(names)}"
    return Table(title, tuple(columns), (("", _marked(rows, columns)),), (fpr_note(document), *_reasons(document)))


def _detail(document: Mapping[str, Any], against: bool) -> Table:
    results, printed, near = document["results"], document["published"], document["near"]
    columns = _metric_columns(document, against)
    sets = _sets(document)
    ordered = [name for name in sets if name not in near] + [name for name in sets if name in near]
    sections = []
    for name in ordered:
        rows = [
            _metric_row(method, record["ood"][name], printed.get(method, {}).get(name, {}), against)
            for method, record in results.items()
        ]
        rows += _skipped_rows(document, len(columns), sets=False)
        kind = "near" if name in near else "far"
        sections.append((f"{name} ({kind}, {document['n'][name]} inputs)", _marked(rows, columns)))
    for kind, names in (("far", [name for name in sets if name not in near]), ("near", near)):
        rows = [_metric_row(m, record[kind], {}, against) for m, record in results.items() if kind in record]
        if rows and len(names) > 1:
            sections.append((f"average over the {kind} sets", _marked(rows, columns)))
    absent = [row for row in _skipped_rows(document, len(columns)) if _is_set(document, str(row[0].value))]
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
    names = {"standard": "Standard (max logit)", "cw": "CW", "cm": "CM (CTM)"}
    for row, record in document["results"].items():
        paper = document["published"].get(row, {}).get("average", {})
        average = record["average"]
        cells = [Cell(names[row]), Cell(document["accuracy"].get(row))]
        if against:
            cells += [Cell(paper.get("accuracy")), _difference(document["accuracy"].get(row), paper.get("accuracy"))]
        cells.append(Cell(average["auroc"], average["auroc_std"]))
        cells += [Cell(paper.get("auroc"))] if against else []
        rows.append([*cells, Cell(average["fpr"], average["fpr_std"])])
    caveat = "The paper's AUROC is the average over its own OOD sets; its Standard equals none of its rows."
    return _averages(
        document, "logits, cosines to weights, cosines to class means", columns, rows, caveat if against else None
    )


def _layers(document: Mapping[str, Any], against: bool) -> Table:
    columns = [Column("layer", "text"), Column(_fpr(document)), *([Column("paper")] if against else [])]
    columns += [Column("AUROC ↑"), *([Column("paper")] if against else [])]
    rows = []
    for layer, record in document["results"].items():
        average, paper = record["average"], document["published"].get(layer, {}).get("average", {})
        cells = [Cell(layer)]
        for metric in ("fpr", "auroc"):
            cells.append(Cell(average[metric], average[f"{metric}_std"]))
            cells += [Cell(paper.get(metric))] if against else []
        rows.append(cells)
    caveat = "The paper's numbers are averages over its own OOD sets."
    return _averages(document, "CTM at each depth", columns, rows, caveat if against else None)


def _averages(
    document: Mapping[str, Any], what: str, columns: list[Column], rows: list[list[Cell]], caveat: str | None
) -> Table:
    """Return a table of averages with the rows that could not be measured, and what to know of its numbers."""
    rows = [*rows, *_skipped_rows(document, len(columns), sets=False)]
    notes = [*([caveat] if caveat else []), fpr_note(document), *_reasons(document)]
    return Table(f"{document['title']}: {what}", tuple(columns), (("", _marked(rows, columns)),), tuple(notes))


def _mistakes(document: Mapping[str, Any], against: bool) -> Table:
    columns = [Column("method", "text"), Column("AURC ‰ ↓", "milli"), Column("E-AURC ‰ ↓", "milli")]
    rows = [[Cell(m), Cell(r.get("aurc")), Cell(r.get("e_aurc"))] for m, r in document["results"].items()]
    rows += _skipped_rows(document, len(columns), sets=False)
    accuracy = document["accuracy"].get("standard")
    known = "" if accuracy is None else f" (accuracy {100 * accuracy:.2f} %)"
    note = (
        f"Area under the risk-coverage curve in thousandths, on {document['n']['test']} ID test inputs{known}; "
        "E-AURC: above the least that any score reaches."
    )
    title = f"{document['title']}: ranking the network's own mistakes"
    return Table(title, tuple(columns), (("", _marked(rows, columns)),), (note, *_reasons(document)))


def _metric_columns(document: Mapping[str, Any], against: bool) -> list[Column]:
    beside = [Column("paper"), Column("diff", "difference")] if against else []
    columns = [Column("method", "text")]
    for metric, heading in METRICS.items():
        columns += [Column(heading.format(tpr=f"{100 * document['protocol']['tpr']:g}"))]
        columns += beside if metric in ("fpr", "auroc") else []
    return columns


def _metric_row(name: str, ours: Mapping[str, Any], paper: Mapping[str, float], against: bool) -> list[Cell]:
    cells = [Cell(name)]
    for metric in METRICS:
        cells.append(Cell(ours[metric], ours.get(f"{metric}_std", 0.0)))
        if against and metric in ("fpr", "auroc"):
            cells += [Cell(paper.get(metric)), _difference(ours[metric], paper.get(metric))]
    return cells


def _mean_over(ood: Mapping[str, Mapping[str, float]], names: Sequence[str]) -> dict[str, float]:
    return {m: fmean(ood[name][m] for name in names) for m in METRICS} | {f"{m}_std": 0.0 for m in METRICS}


def _difference(ours: float | None, paper: float | None) -> Cell:
    return Cell(None if ours is None or paper is None else ours - paper)


def _sets(document: Mapping[str, Any]) -> list[str]:
    return [name for name in document["n"] if name not in ("train", "test")]


def _common(document: Mapping[str, Any]) -> list[str]:
    """Return the OOD sets that the paper has too, on which alone averages can be compared; all, if it has none."""
    common = [numbers["common"]["sets"] for numbers in document["published"].values()]
    return max(common, key=len, default=[]) or _sets(document)


def _skipped_rows(document: Mapping[str, Any], width: int, *, sets: bool = True) -> list[list[Cell]]:
    chosen = {k: why for k, why in document["skipped"].items() if sets or not _is_set(document, k)}
    return [[Cell(f"{name}: {tag_of(why)}"), *[Cell()] * (width - 1)] for name, why in chosen.items()]


def _is_set(document: Mapping[str, Any], name: str) -> bool:
    return name.partition(":")[0] in document.get("absent", ())


def _reasons(document: Mapping[str, Any]) -> list[str]:
    """Say what is empty and why, those that differ in nothing but the name together."""
    alike: dict[str, list[str]] = {}
    for name, why in document["skipped"].items():
        alike.setdefault(why.replace(name, "NAME"), []).append(name)
    texts = {names[0]: document["skipped"][names[0]] if len(names) == 1 else why for why, names in alike.items()}
    return [f"{', '.join(names)}: {texts[names[0]]}" for names in alike.values()]


def _fpr(document: Mapping[str, Any]) -> str:
    return METRICS["fpr"].format(tpr=f"{100 * document['protocol']['tpr']:g}")


def _marked(rows: Iterable[Sequence[Cell]], columns: Sequence[Column]) -> tuple[tuple[Cell, ...], ...]:
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
