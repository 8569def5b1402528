"""Verdicts on the screen."""

from __future__ import annotations

from typing import Any

from rich.markup import escape
from rich.table import Table

from typica.bench import NarrowTable
from typica.cli._show import one_line
from typica.written_numbers import percent

_TEXTS = ("file", "group", "verdict", "nearest", "runner_up")


def verdict_table(columns: dict[str, list[Any]]) -> NarrowTable:
    """Return columns as a table, with what was rejected in red."""
    made = Table(box=None, pad_edge=False)
    for column in columns:
        heading = column.replace("_", "-")
        justify = "left" if column in _TEXTS else "right"
        made.add_column(heading, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for record in zip(*columns.values(), strict=True):
        made.add_row(*map(_cell, record), style="red" if "atypical" in record else "")
    return NarrowTable(made)


def share_of(rejected: int, total: int, what: str) -> str:
    """Return how many of so many are atypical, as a sentence."""
    return f"{rejected} of {total} {what} are atypical, {percent(rejected / total)} %"


def more_rows(which: str, total: str) -> str:
    """Return what is shown of how many, as a sentence."""
    return f"{which} of {total} are shown; --limit shows more"


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4f}"
    return escape(one_line(str(value)))
