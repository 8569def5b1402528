"""Verdicts on the screen."""

from __future__ import annotations

from typing import Any

from rich.markup import escape
from rich.table import Table

from typica.bench import NarrowTable
from typica.cli._show import console
from typica.spreadsheets import one_line
from typica.written_numbers import percent

_TEXTS = ("file", "group", "verdict", "nearest", "runner_up")


def verdict_table(columns: dict[str, list[Any]]) -> NarrowTable:
    """Return columns of verdicts as a table for the terminal, with what was rejected in red."""
    made = Table(box=None, pad_edge=False)
    for column in columns:
        heading = escape(one_line(column.replace("_", "-")))
        justify = "left" if column in _TEXTS else "right"
        made.add_column(heading, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for record in zip(*columns.values(), strict=True):
        made.add_row(*map(_cell, record), style="red" if "atypical" in record else "")
    return NarrowTable(made)


def atypical_line(rejected: int | None, total: int, what: str) -> str:
    """Return the line that a command prints about its verdicts: how many are atypical.

    rejected: None where there is no threshold.
    """
    if not total:
        return f"there are no {what}"
    if rejected is None:
        scored = f"{total} {what} are scored but not judged, as there is no threshold"
        return f"{scored}; run `typica calibrate` with held-out inputs"
    return f"{rejected} of {total} {what} are atypical, {percent(rejected / total)} %"


def say_if_more(limit: int, total: int, what: str = "", by: str | None = None) -> None:
    """Say so if a command shows only some of its verdicts: the strangest, or the first by `by`."""
    which = f"the {limit} strangest" if by is None else f"the first {limit} by {by}"
    if 0 < limit < total:
        of = f"{total} {what}".rstrip()
        console.print(f"{which} of {of} are shown; --limit shows more", style="dim")


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4f}"
    return escape(one_line(str(value)))
