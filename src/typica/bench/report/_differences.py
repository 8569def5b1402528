"""Every large difference from a published number links to what is known about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from typica.bench._open_result import ResultFolder
from typica.bench._reasons import experiment_reasons, reasons
from typica.bench._record import Record
from typica.bench._record_tables import ABLATION
from typica.bench._table import Table, tone
from typica.bench.report._experiments import Section


@dataclass(frozen=True)
class Why:
    """What is known about the differences of one row, and where the page says it."""

    anchor: str
    name: str
    reasons: Sequence[str]


def link_differences(
    result: ResultFolder, tables: Sequence[Table], experiments: Sequence[Section]
) -> list[Why]:
    """Return why rows of these tables differ a lot, and let the tables link to it."""
    found: dict[str, Why] = {}
    for table in tables:
        _link(table, found, "", lambda name: reasons(result.record, name))
    for section in experiments:
        record = result.experiments.get(section.key)
        if record is not None:
            _link_section(section, record, found)
    return list(found.values())


def _link_section(section: Section, record: Record, found: dict[str, Why]) -> None:
    rows = {label: name for name, label in ABLATION.items()}

    def explain(name: str) -> list[str]:
        return experiment_reasons(record, rows.get(name, name))

    for placed in section.tables:
        _link(placed.table, found, f"{section.name}: ", explain)


def _link(
    table: Table, found: dict[str, Why], before: str, explain: Callable[[str], list[str]]
) -> None:
    for name in _far(table):
        label = f"{before}{name}"
        if label not in found:
            found[label] = Why(f"why-{len(found)}", label, explain(name))
        table.why[name] = found[label].anchor


def _far(table: Table) -> list[str]:
    """Return the names of the rows with a large difference."""
    kinds = [column.kind for column in table.columns]
    names = {}
    for row in table.rows:
        for kind, cell in zip(kinds, row, strict=True):
            is_number = kind == "difference" and isinstance(cell.value, float)
            if is_number and tone(float(cell.value or 0)) == "far":
                names[str(row[0].value)] = True
    return list(names)
