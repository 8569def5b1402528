"""`typica score` of tables: written as they are judged, or the strangest rows shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from typica import scale
from typica.cli._show import complain, console, say_written, write_json
from typica.cli._verdict_table import atypical_line, say_if_more, verdict_table
from typica.data import RowPrinter
from typica.decide import describe
from typica.detectors import Estimator, final_detector
from typica.errors import InputError
from typica.progress import work
from typica.verdicts import WORDS


@dataclass(frozen=True)
class TableScoring:
    """What `typica score` was asked to do with tables.

    columns: features, columns, ids, on_error, engine and address, as `typica.scale.score` takes
    them.
    whole: options that need all rows at once, which tables cannot have.
    """

    estimator: Estimator
    inputs: list[str]
    columns: dict[str, Any]
    levels: dict[str, str | None]
    only: str | None
    output: str | None
    whole: dict[str, Any]


def score_tables(wanted: TableScoring, limit: int, json_file: str | None, *, printed: bool) -> None:
    """Judge tables, and write, print or show the verdicts.

    printed: whether a document takes standard output.
    """
    for option, value in wanted.whole.items():
        if value is not None:
            raise InputError(
                f"{option} {value}: needs all rows at once, but tables are read in parts; "
                "leave it out, and work on what -o writes."
            )
    found = _judged(wanted, limit)
    if not printed:
        _show(found, wanted.only, limit)
    elif wanted.output == "-":
        complain(atypical_line(found["rejected"], found["n"], "rows"), style="")
    if json_file is not None:
        named = {"detector": describe(wanted.estimator)["detector"]}
        levels = {name: float(v) for name, v in wanted.levels.items() if v is not None}
        write_json(named | levels | found, json_file)


def _judged(wanted: TableScoring, limit: int) -> dict[str, Any]:
    """Judge the rows; return how many there are and how many are atypical, and where they are.

    That is the path of the output, or the rows to show. Without a threshold the number of atypical
    rows is None.
    """
    decided = final_detector(wanted.estimator).has_threshold
    options = {**wanted.columns, **wanted.levels, "only": wanted.only}
    if wanted.output not in (None, "-"):
        done = scale.score(wanted.estimator, wanted.inputs, wanted.output, **options)
        say_written(done.path)
        counts = {"n": done.n, "rejected": done.rejected if decided else None}
        return counts | {"skipped": done.skipped, "output": done.path}
    with work("scoring", None, "rows/s"):
        judged = scale.judge_stream(wanted.estimator, wanted.inputs, **options)
        if wanted.output is None:
            rows = scale.strangest(judged, limit)
        else:
            rows = None
            with RowPrinter() as printer:
                for batch in judged:
                    printer.write(batch.to_pydict())
    judged.skipped.note()
    found: dict[str, Any] = {"n": judged.n, "rejected": judged.rejected if decided else None}
    found["skipped"] = judged.skipped.n
    return found if rows is None else found | {"rows": rows.to_pylist()}


def _show(found: dict[str, Any], only: str | None, limit: int) -> None:
    n, rejected, rows = found["n"], found["rejected"], found.get("rows", [])
    if rows:
        console.print(verdict_table(_printed_columns(rows)))
        say_if_more(limit, _chosen(n, rejected, only))
    console.print(atypical_line(rejected, n, "rows"))


def _chosen(n: int, rejected: int | None, only: str | None) -> int:
    """Return how many of the verdicts `--only` leaves."""
    if only is None or rejected is None:
        return n
    return rejected if only == WORDS[False] else n - rejected


def _printed_columns(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Return the columns of verdicts to print, without those that are empty."""
    columns = {}
    for name in rows[0]:
        values = [row[name] for row in rows]
        if any(value is not None for value in values):
            columns[name] = values
    return columns
