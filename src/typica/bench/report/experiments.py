"""The sections of the experiments beside the main one, in the words and numbers of the terminal's tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from html import escape
from typing import Any

from typica.bench.analysis_tables import tables as analysis_tables
from typica.bench.averages import average_over, measured_sets, sets_in_common
from typica.bench.cells import Cell as Value
from typica.bench.cells import Column, Table
from typica.bench.render import text_of
from typica.bench.report.folder import BenchResult
from typica.bench.report.html import (
    Cell,
    capital,
    points_cell,
    sortable,
    text_cell,
    typeset,
    value_cell,
)
from typica.bench.results import result_file
from typica.bench.tables import fpr_note, tables_of
from typica.errors import FormatError

MOST_COLUMNS = 5  # of a table that has room beside another
_WIDE = ' class="wide"'
_HEADINGS = {
    "paper": "published",
    "diff": "difference",
    "accuracy ↑": "Accuracy ↑",
}  # as the page's other tables have them


@dataclass(frozen=True)
class Section:
    """A section of the page: its name in the navigation, its heading, what it is about, and its HTML."""

    name: str
    heading: str
    lead: str
    html: str


WORDS = {
    "ablation": (
        "Ablation",
        "Logits or cosines",
        "Accuracy and detection by the network's largest logit (Standard), and by the largest cosine to its weights "
        "(CW) and to the class means (CM).",
    ),
    "layers": (
        "Depth",
        "CTM at each depth",
        "The same method on the features of every layer, from the input on.",
    ),
    "misclassification": (
        "Mistakes",
        "The network's own mistakes",
        "How well a method ranks known inputs that the network gets wrong below those that it gets right.",
    ),
}


def experiment_sections(result: BenchResult) -> dict[str, Section]:
    """Return the sections of what was found, by the name of the experiment."""
    documents: dict[str, Mapping[str, Any]] = dict(result.experiments)
    if any(
        "aurc" in entry for entry in result.document["results"].values()
    ) and "test" in result.part("n"):
        defaults = {"accuracy": {}, "published": {}, "title": result.title}
        # What could not be measured has its place under the protocol.
        documents["misclassification"] = defaults | dict(result.document) | {"skipped": {}}
    made = {}
    for key, document in documents.items():
        tables = _tables(result, key, document)
        charts = '<div class="pair" id="layers-charts"></div>' if key == "layers" else ""
        ranked = key == "misclassification"
        html = "".join(
            table_html(f"{key}-{i}", table, best_first=ranked) for i, table in enumerate(tables)
        )
        made[key] = Section(*WORDS[key], html + charts)
    return made


def analysis_html(result: BenchResult) -> str:
    """Return the tables of the analysis; "" where its document has charts alone."""
    if not {"kernel", "one_hot", "motivation"} <= set(result.analysis):
        return ""
    with _reading(result, "analysis"):
        tables = analysis_tables(result.analysis)
    return "".join(table_html(f"analysis-{i}", table) for i, table in enumerate(tables))


def depth_charts(result: BenchResult) -> list[dict[str, Any]]:
    """Return a chart a metric: CTM at each depth and what the paper printed, layers by name along the x axis."""
    document = result.experiments.get("layers")
    if document is None:
        return []
    charts = []
    with _reading(result, "layers"):
        published, measured = document["published"], measured_sets(document)
        names = sets_in_common(published, measured) or measured
        layers = list(document["results"])
        if len(layers) < 2:  # a single one makes no line
            return []
        for metric, title in {"auroc": "AUROC", "fpr": result.fpr_name}.items():
            ours = [average_over(document["results"][layer], names)[metric] for layer in layers]
            theirs = [published.get(layer, {}).get("average", {}).get(metric) for layer in layers]
            lines = {"measured": ours} | ({"published": theirs} if None not in theirs else {})
            series = [
                {"name": name, "x": list(range(len(layers))), "y": y} for name, y in lines.items()
            ]
            charts.append(
                {"title": title, "names": layers, "series": series, "x_label": "", "y_label": ""}
            )
    return charts


def table_html(key: str, table: Table, *, best_first: bool = False) -> str:
    """Return a table of the terminal as HTML: sortable, a star where the terminal has bold, its notes beneath."""
    rows = [
        [_cell(value, column) for value, column in zip(row, table.columns, strict=True)]
        for _, section in table.sections
        for row in section
    ]
    if best_first:  # by the first number, which is lower for a better one
        rows.sort(key=lambda row: row[1].key if isinstance(row[1].key, float) else math.inf)
    headings = [_HEADINGS.get(column.heading, column.heading) for column in table.columns]
    headings[0] = capital(headings[0])
    made = sortable(
        key,
        capital(table.title),
        headings,
        rows,
        sorted_by=1 if best_first else -1,
        ascending=best_first,
    )
    notes = f'<p class="muted">{escape(" ".join(table.notes))}</p>' if table.notes else ""
    return f"<div{_WIDE if len(headings) > MOST_COLUMNS else ''}>{made}{notes}</div>"


def _tables(result: BenchResult, key: str, document: Mapping[str, Any]) -> list[Table]:
    """Return the tables of an experiment, without what the page says elsewhere."""
    with _reading(result, key):
        absent = document.get("absent", ())
        skipped = {
            name: why
            for name, why in document["skipped"].items()
            if name.partition(":")[0] not in absent
        }
        kept = {**document, "experiment": key, "skipped": skipped}
        said = "" if key == "misclassification" else fpr_note(kept)
        return [
            replace(
                table,
                title=table.title.removeprefix(f"{result.title}: "),
                notes=tuple(note for note in table.notes if note != said),
            )
            for table in tables_of(kept, against_paper=True)
        ]


def _cell(value: Value, column: Column) -> Cell:
    found = value.value
    if found is None:
        return value_cell(None)
    if isinstance(found, str):
        return Cell(escape(found), found)
    if column.kind == "percent":
        return value_cell(found, value.std or None, best=value.best)
    if column.kind == "difference":
        return points_cell(100 * found)
    return text_cell(typeset(text_of(value, column)), found, best=value.best)


@contextmanager
def _reading(result: BenchResult, experiment: str) -> Iterator[None]:
    """Name the file where a document is not what the experiment writes."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        where = (
            f"{result_file(result.folder, experiment)}: not what `--experiment {experiment}` writes"
        )
        raise FormatError(
            f"{where} ({type(error).__name__}: {error}); run the benchmark again."
        ) from None
