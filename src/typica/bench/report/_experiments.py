"""The sections of the experiments beside the main one, in the words of the terminal's tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from typica.bench._analysis_tables import tables as analysis_tables
from typica.bench._open_result import ResultFolder
from typica.bench._record import Record
from typica.bench._record_tables import fpr_note, tables_of
from typica.bench._report_templates import capital
from typica.bench._table import Table
from typica.bench.published import PAPER
from typica.bench.report._page_tables import headings
from typica.metrics import ACCURACY

MOST_COLUMNS = 5  # of a table that has room beside another


@dataclass(frozen=True)
class Placed:
    """A table of the page, and the key that sets it apart."""

    key: str
    table: Table

    @property
    def is_wide(self) -> bool:
        """Whether the table needs the whole width of the page."""
        return len(self.table.columns) > MOST_COLUMNS


@dataclass(frozen=True)
class Section:
    """A section: its key, name in the navigation, heading, what it is about, and its tables."""

    key: str
    name: str
    heading: str
    lead: str
    tables: Sequence[Placed] = ()


SECTIONS: Final = [
    Section(
        "ablation",
        "Ablation",
        "Logits or cosines",
        "Accuracy and detection by the network's largest logit (Standard), and by the largest "
        "cosine to its weights (CW) and to the class means (CM).",
    ),
    Section(
        "layers",
        "Depth",
        "CTM at each depth",
        "The same method on the features of every layer, from the input on.",
    ),
    Section(
        "misclassification",
        "Mistakes",
        "The network's own mistakes",
        "How well a method ranks known inputs that the network gets wrong below those that it gets "
        "right.",
    ),
]


def experiment_sections(result: ResultFolder) -> list[Section]:
    """Return the sections of what was found."""
    records = dict(result.experiments)
    main = result.record
    if "test" in main.n and any(row.aurc is not None for row in main.rows.values()):
        # What could not be measured has its place under the protocol.
        records["misclassification"] = replace(main, skipped={})
    sections = []
    for section in SECTIONS:
        if section.key in records:
            record = records[section.key]
            tables = _tables(result.record.title, section.key, record)
            shown = placed(section.key, tables, record.published_by)
            sections.append(replace(section, tables=shown))
    return sections


def analysis_sections(result: ResultFolder) -> list[Placed]:
    """Return the tables of the analysis; none if there is no analysis."""
    if result.analysis is None:
        return []
    return placed("analysis", analysis_tables(result.analysis))


def placed(key: str, tables: Sequence[Table], published_by: str = PAPER) -> list[Placed]:
    """Give tables the page's wording, and number them."""
    made = []
    for number, table in enumerate(tables):
        plain = (ACCURACY.heading, table.columns[0].heading)
        table.rename(headings(published_by) | {heading: capital(heading) for heading in plain})
        table.title = capital(table.title)
        made.append(Placed(f"{key}-{number}", table))
    return made


def _tables(title: str, key: str, record: Record) -> list[Table]:
    """Return the tables of an experiment, without what the page says elsewhere."""
    reasons = record.skipped.items()
    skipped = {name: reason for name, reason in reasons if name not in record.absent}
    kept = replace(record, experiment=key, skipped=skipped)
    said = "" if key == "misclassification" else fpr_note(kept)
    tables = tables_of(kept, against=kept.published_by)
    for table in tables:
        table.title = table.title.removeprefix(f"{title}: ")
        table.notes = [note for note in table.notes if note != said]
        if key == "misclassification":
            table.sorted_by(1)
    return tables
