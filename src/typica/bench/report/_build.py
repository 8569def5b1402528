"""Put the report together: one HTML file with its style, its script, its images and its data."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Final

from markupsafe import Markup

import typica
from typica.bench._headline import Headline, headline
from typica.bench._open_result import ResultFolder, open_result
from typica.bench._record import Record, Row, coverage
from typica.bench._report_templates import render, source
from typica.bench._table import Table
from typica.bench._table_formats import to_html
from typica.bench.report._differences import Why, link_differences
from typica.bench.report._experiments import (
    Placed,
    Section,
    analysis_sections,
    experiment_sections,
)
from typica.bench.report._gallery import Gallery, gallery_of
from typica.bench.report._heat_map import HeatMap, heat_map
from typica.bench.report._page_data import EXACT_UP_TO, PageData, page_data, script_json
from typica.bench.report._page_tables import (
    best_row,
    detail_table,
    main_table,
    parameter_table,
    published_tables,
)
from typica.files import atomic_path
from typica.metrics import CONVENTIONS, METRICS
from typica.written_numbers import percent

NETWORK: Final = "standard"  # the accuracy that is the network's own, by its logits
ACCURACY: Final = {  # what the accuracies of a record are those of
    NETWORK: "",
    "cw": "by cosine to its weights (CW)",
    "cm": "by cosine to the class means (CM)",
}


def write_report(
    result_folder: str | os.PathLike[str],
    out_html: str | os.PathLike[str],
    *,
    against: str | None = None,
) -> Path:
    """Write the report of a result folder as one HTML file that needs no network; return its path.

    against: whose published numbers lead, "paper" say, with the OOD sets that they cover too. The
    same folder gives the same bytes.

    >>> import json, tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> results = {"ctm": {"ood": {"svhn": {"auroc": 0.99}}}}
    >>> document = {"suite": "my", "protocol": {}, "results": results}
    >>> _ = (folder / "result.json").write_text(json.dumps(document))
    >>> write_report(folder, folder / "report.html").name
    'report.html'
    """
    page = build(open_result(result_folder), against=against)
    with atomic_path(out_html) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return Path(out_html)


def build(result: ResultFolder, *, against: str | None = None) -> str:
    """Return the page of a result."""
    record = result.record
    beside = record.beside(against)
    # The page shows the whole result, whichever of its tables the shell was asked for.
    found = headline(replace(record, experiment="main"), against=against)
    take = "" if found is None else found.take
    gallery, analysis = gallery_of(result, take), analysis_sections(result)
    experiments = experiment_sections(result)
    detail = detail_table(record)
    tables = _main_tables(record, beside)
    # Before the tables become HTML: they then link to the reasons.
    whys = link_differences(result, [*tables.values(), detail], experiments)
    page = Page(
        record=record,
        headline=found,
        tiles=list(_tiles(record, record.covered(against=beside))),
        main_tables=[to_html(table, key) for key, table in tables.items()],
        detail_table=to_html(detail, "detail"),
        experiments=experiments,
        analysis=analysis,
        whys=whys,
        gallery=gallery,
        data=page_data(result, take, gallery.uris),
    )
    return render("report.html", page=page, record=record, to_html=to_html)


@dataclass(frozen=True)
class Page:
    """What the template shows, in the order of the page. data: what its script reads."""

    record: Record
    headline: Headline | None
    tiles: Sequence[Tile]
    main_tables: Sequence[str]
    detail_table: str
    experiments: Sequence[Section]
    analysis: Sequence[Placed]
    whys: Sequence[Why]
    gallery: Gallery
    data: PageData

    version: ClassVar[str] = typica.__version__

    @property
    def css(self) -> Markup:
        """The style sheet."""
        return source("report.css")

    @property
    def js(self) -> Markup:
        """The script."""
        return source("report.js")

    @property
    def json(self) -> Markup:
        """What the script reads, as it stands in the page."""
        return script_json(self.data.to_dict())

    @property
    def hidden(self) -> set[str]:
        """The keys of sections that have nothing to show."""
        data = self.data
        contents = {
            "threshold": data.methods,
            "calibration": data.methods,
            "gallery": self.gallery.methods,
            "why": self.whys,
            "analysis": data.histograms or data.curves or self.analysis,
        }
        return {key for key, content in contents.items() if not content}

    @property
    def navigation(self) -> dict[str, str]:
        """The names of the sections that are shown, by key."""
        return _navigation(self.experiments, self.hidden)

    @property
    def main_note(self) -> str:
        """What to know about the main tables."""
        return _main_note(self.record)

    @property
    def heat_maps(self) -> list[HeatMap]:
        """The heat maps that have numbers."""
        maps = [heat_map(self.record, metric) for metric in ("auroc", "fpr")]
        return [found for found in maps if found is not None]

    @property
    def score_note(self) -> str:
        """What to know about the interactive numbers."""
        return _score_note(self.record, self.data)

    @property
    def parameter_table(self) -> str:
        """The parameters of the methods; empty if none has any."""
        table = parameter_table(self.record)
        return "" if table is None else to_html(table, "params")

    @property
    def facts(self) -> dict[str, Any]:
        """What the numbers were measured on, and how."""
        return _facts(self.record)


def _main_tables(record: Record, beside: bool) -> dict[str, Table]:
    """Return the averages over all OOD sets and beside the published ones, what leads first."""
    main = {"main": main_table(record)}
    published = published_tables(record)
    keys = ["paper", *(f"paper-{number}" for number in range(2, len(published) + 1))]
    tables = dict(zip(keys, published, strict=False))
    return tables | main if beside else main | tables


def _navigation(experiments: Sequence[Section], hidden: set[str]) -> dict[str, str]:
    """Return the sections that are shown, by key."""
    names = {"results": "Results", "map": "Heat map", "threshold": "Threshold"}
    names |= {"calibration": "Calibration", "gallery": "Gallery"}
    names |= {section.key: section.name for section in experiments}
    names |= {"detail": "Details", "why": "Differences", "analysis": "Analysis"}
    names |= {"protocol": "Protocol"}
    return {key: name for key, name in names.items() if key not in hidden}


@dataclass(frozen=True)
class Tile:
    """A number to see first."""

    label: str
    value: str
    note: str


def _tiles(record: Record, sets: Sequence[str]) -> Iterator[Tile]:
    """Yield the best means over these OOD sets, the accuracy, and how much was measured."""
    count = len(record.sets)
    covered = coverage(sets, record.sets).partition(" (")[0]
    labels = {"auroc": f"Best {METRICS['auroc'].heading}", "fpr": f"Lowest {record.fpr_name}"}
    for metric, label in labels.items():
        if found := best_row(record, metric, sets):
            row, value = found
            yield Tile(label, f"{percent(value)} %", f"{row}, {covered}")
    if NETWORK in record.accuracy:
        others = [name for name in record.accuracy if name != NETWORK]
        beside = [f"{percent(record.accuracy[name])} % {_accuracy(name)}" for name in others]
        accuracy = f"{percent(record.accuracy[NETWORK])} %"
        yield Tile("Accuracy of the network", accuracy, ", ".join(beside) or NETWORK)
    test = record.n.get("test")
    known = f"{test:,} ID test inputs" if isinstance(test, int) else ", ".join(record.sets)
    yield Tile("Methods and OOD sets", f"{len(record.rows)} on {count}", known)


def _accuracy(name: str) -> str:
    return ACCURACY.get(name, name)


def _main_note(record: Record) -> str:
    kept = f"{100 * record.protocol.tpr:g} % of ID are kept"
    notes = [
        f"{record.fpr_name}: share of OOD inputs accepted where {kept}.",
        CONVENTIONS[record.protocol.convention],
        "★ marks the best of its column.",
        *_spread_notes(record),
    ]
    if "cw" in record.rows:
        notes.append("cw: largest cosine to the head's weights; ctm: to the class means.")
    if record.in_common:
        notes.append("Published means cover the same OOD sets as ours beside them.")
        notes.append("Differences are in percentage points, ours minus published.")
    return " ".join(notes)


def _spread_notes(record: Record) -> Iterator[str]:
    """Explain what stands beside a number: an interval, or else a deviation."""
    means = [row.average["auroc"] for row in record.rows.values() if "auroc" in row.average]
    if any(mean.interval is not None for mean in means):
        yield (
            "Small beside a number: its 95 % bootstrap interval, where other inputs of the same "
            "kind might put it."
        )
    elif any(mean.std is not None for mean in means):
        yield (
            "± is the standard deviation over the random subsets that large sets are cut to, which "
            "is not the error of the result."
        )


def _score_note(record: Record, data: PageData) -> str:
    """Say what the interactive numbers are counted from, where that is not every score."""
    notes = []
    if any(map(_averages_subsets, record.rows.values())):
        notes.append(
            "The tables average over random subsets of large sets; here every input is counted."
        )
    without = sorted(set(record.rows) - {method.name for method in data.methods})
    if without:
        notes.append(f"No scores were kept for {', '.join(without)}.")
    if large := _thinned(data):
        notes.append(
            f"{', '.join(large)}: represented by {EXACT_UP_TO:,} evenly spread order statistics, "
            f"so shares of it are exact to {100 / EXACT_UP_TO:.3f} percentage points only."
        )
    return " ".join(notes)


def _averages_subsets(row: Row) -> bool:
    """Tell whether a row has the mean over several random subsets of an OOD set."""
    return any((found.subsets or 1) > 1 for found in row.ood.values())


def _thinned(data: PageData) -> list[str]:
    large = set()
    for method in data.methods:
        if method.test.thinned:
            large.add("the ID test set")
        large |= {found.name for found in method.sets if found.scores.thinned}
    return sorted(large)


def _facts(record: Record) -> dict[str, Any]:
    """Return what the numbers were measured on and how, by what it is called."""
    facts = {"suite": record.suite, **record.protocol.to_dict()}
    for key, share in record.accuracy.items():
        facts[f"accuracy {_accuracy(key)}".strip()] = f"{percent(share)} %"
    for key, n in record.n.items():
        facts[f"inputs in {key}"] = f"{n:,}" if isinstance(n, int) else n
    if record.near:
        facts["near OOD sets"] = record.near
    return facts
