"""Pieces of HTML that the report's tables are made of: cells, and a table whose headings sort it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple


class Cell(NamedTuple):
    """A cell's HTML, and what it is sorted by; None sorts last whichever way."""

    html: str
    key: float | str | None = None


def sortable(
    key: str,
    caption: str,
    headings: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    text: int = 1,
    sorted_by: int = -1,
    ascending: bool = False,
) -> str:
    """Return a table in a box that scrolls by itself; its first `text` columns are text, headings are buttons."""
    order = "ascending" if ascending else "descending"
    head = "".join(
        f'<th scope="col" aria-sort="{order if i == sorted_by else "none"}"{"" if i < text else _NUM}>'
        f'<button type="button">{escape(label)}</button></th>'
        for i, label in enumerate(headings)
    )
    body = []
    for row in rows:
        cells = []
        for i, cell in enumerate(row):
            tag = 'th scope="row"' if i == 0 else "td" if i < text else f"td{_NUM}"
            sort_key = "" if cell.key is None else f' data-v="{escape(str(cell.key))}"'
            cells.append(f"<{tag}{sort_key}>{cell.html}</{tag[:2]}>")
        body.append(f"<tr>{''.join(cells)}</tr>")
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}">'
        f'<table class="sortable" id="table-{key}"><caption><span>{escape(caption)}</span></caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


_NUM = ' class="num"'


def name_cell(name: str) -> Cell:
    """Return a cell with a name."""
    return Cell(escape(name), name)


def value_cell(
    value: float | None,
    std: float | None = None,
    *,
    best: bool = False,
    spread_column: bool = False,
) -> Cell:
    """Return a share in percent, with its standard deviation, and a star if it is the best of its column.

    In a column where others have a standard deviation, one without leaves its place empty, so that
    numbers align.

    >>> value_cell(0.98, 0.001).html
    '<span class="v">98.00</span> <span class="sd">± 0.10</span>'
    """
    if value is None:
        return Cell('<span class="none">–</span>')  # noqa: RUF001 (a dash)
    place = ' <span class="sd"></span>' if spread_column else ""
    spread = place if std is None else f' <span class="sd">± {percent(std)}</span>'
    return text_cell(percent(value), value, best=best, after=spread)


def text_cell(text: str, key: float, *, best: bool = False, after: str = "") -> Cell:
    """Return a number as it is written, with a star if it is the best of its column, and HTML to stand behind it."""
    star = (
        '<span class="star" title="best">★<span class="hidden"> best</span></span> ' if best else ""
    )
    tag = "strong" if best else "span"
    return Cell(f'{star}<{tag} class="v">{escape(text)}</{tag}>{after}', key)


def difference_cell(ours: float | None, theirs: float | None) -> Cell:
    """Return how much more ours is, in percentage points, with a class for its size.

    >>> difference_cell(0.98, 0.99).html
    '<span class="some">−1.00</span>'
    """
    return (
        value_cell(None) if ours is None or theirs is None else points_cell(100 * (ours - theirs))
    )


def points_cell(points: float) -> Cell:
    """Return a difference in percentage points, with a class for its size."""
    size = "close" if abs(points) <= 0.5 else "some" if abs(points) <= 2 else "far"
    return Cell(f'<span class="{size}">{typeset(f"{points:+.2f}")}</span>', points)


def percent(share: float) -> str:
    """Return a share as a percentage with two decimals.

    >>> percent(0.98765)
    '98.77'
    """
    return f"{100 * share:.2f}"


def capital(text: str) -> str:
    """Return a text whose first letter is a capital.

    >>> capital("mean of 5 OOD sets")
    'Mean of 5 OOD sets'
    """
    return text[:1].upper() + text[1:]


def typeset(number_text: str) -> str:
    """Return a number with a real minus sign."""
    return number_text.replace("-", "\N{MINUS SIGN}")


def plain(value: Any) -> str:
    """Return a JSON value as a person writes it.

    >>> plain({"k": 50, "grid": [1, 10], "center": True})
    'k = 50, grid = (1, 10), center = yes'
    """
    if isinstance(value, Mapping):
        inner = {key: plain(item) for key, item in value.items()}
        nested = {
            key: f"({inner[key]})" if isinstance(value[key], Mapping | list) else inner[key]
            for key in inner
        }
        return ", ".join(f"{key} = {text}" for key, text in nested.items())
    if isinstance(value, list):
        return ", ".join(map(plain, value))
    if value is None or isinstance(value, bool):
        return "none" if value is None else "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
