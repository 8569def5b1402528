"""The templates of the report, in which every value is escaped unless it is marked as HTML."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import jinja2
from markupsafe import Markup

from typica.bench._table import NEAR, Cell, Column, tone
from typica.spreadsheets import visible
from typica.written_numbers import percent

MINUS = "\N{MINUS SIGN}"


def render(name: str, **values: Any) -> Markup:
    """Fill in a template; what comes out is HTML and is not escaped again."""
    return Markup(_environment().get_template(name).render(values))


def source(name: str) -> Markup:
    """Return a file beside the templates as it is: a style sheet, a script."""
    loader = _environment().loader
    if loader is None:
        raise LookupError(name)
    return Markup(loader.get_source(_environment(), name)[0])


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("typica.bench.report"),
        autoescape=True,
        finalize=visible,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = {
        "percent": percent,
        "plain": plain,
        "points": points,
        "short": short,
        "tone": tone,
    }
    environment.filters.update(filters)
    environment.globals["sort_key"] = sort_key
    environment.globals["far_points"] = f"{100 * NEAR:g}"
    return environment


def points(size: float) -> str:
    """Return a difference of shares as the report shows it: percentage points, with a sign.

    >>> points(-0.01)
    '−1.00'
    """
    return f"{100 * size:+.2f}".replace("-", MINUS)


def short(value: float, kind: str = "number") -> str:
    """Return a number as the report shows it: four digits, or thousandths with two decimals.

    >>> short(-0.12345), short(0.0101, "milli")
    ('−0.1235', '10.10')
    """
    text = f"{1000 * value:.2f}" if kind == "milli" else f"{value:.4g}"
    return text.replace("-", MINUS)


def sort_key(cell: Cell, column: Column) -> float | str | None:
    """Return, for a template, what the script sorts a cell by; None stays last in either order."""
    if column.kind == "difference" and isinstance(cell.value, float):
        return 100 * cell.value
    return cell.value


def capital(text: str) -> str:
    """Return a heading of the report, or of a bench table, whose first letter is a capital.

    >>> capital("mean of 5 OOD sets")
    'Mean of 5 OOD sets'
    """
    return text[:1].upper() + text[1:]


def plain(value: Any) -> str:
    """Return a JSON value of a result as the report shows it: as a person writes it.

    >>> plain({"k": 50, "grid": [1, 10], "center": True})
    'k = 50, grid = (1, 10), center = yes'
    """
    if isinstance(value, Mapping):
        return ", ".join(f"{key} = {_nested(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(plain, value))
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


def _nested(value: Any) -> str:
    text = plain(value)
    if isinstance(value, Mapping | list | tuple):
        return f"({text})"
    return text
