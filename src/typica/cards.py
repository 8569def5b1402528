"""Cards for notebooks: a title, a small table, a note; everything in them is escaped."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from typica.spreadsheets import visible

if TYPE_CHECKING:
    from jinja2 import Template

MARKED = "background:#d9480f22"  # of a row that stands out
_TEMPLATE = """<p><b>{{ title }}</b></p><table>
{%- if headings %}<tr>{% for name in headings %}<th>{{ name }}</th>{% endfor %}</tr>{% endif %}
{%- for row in rows %}<tr{% if loop.index0 in marked %} style="{{ style }}"{% endif %}>
{%- for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>{% endfor %}</table>
{%- if note %}<p>{{ note }}</p>{% endif %}"""


def card(
    title: str,
    rows: Iterable[Sequence[object]],
    headings: Sequence[str] = (),
    *,
    marked: Collection[int] = (),
    note: str = "",
) -> str:
    """Return HTML for a notebook; the rows whose numbers are `marked` stand out.

    >>> card("<b>", [["score", 0.25]])
    '<p><b>&lt;b&gt;</b></p><table><tr><td>score</td><td>0.25</td></tr></table>'
    """
    cells = [list(map(shown, row)) for row in rows]
    return _template().render(
        title=title, rows=cells, headings=headings, marked=marked, style=MARKED, note=note
    )


def shown(value: Any) -> str:
    """Return a value as a card shows it: four digits of a number, nothing for None."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)


@functools.cache
def _template() -> Template:
    from jinja2 import Environment  # noqa: PLC0415 (only notebooks need it)

    return Environment(autoescape=True, finalize=visible).from_string(_TEMPLATE)
