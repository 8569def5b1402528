"""The report's tables as HTML: everything that can be read without the script."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from typica.bench.report.folder import BenchResult, number

LABELS = {  # metric -> heading; the arrow says which way is better
    "auroc": "AUROC ↑",
    "fpr": "FPR ↓",
    "aupr_in": "AUPR-in ↑",
    "aupr_out": "AUPR-out ↑",
    "detection_error": "Det. error ↓",
    "aurc": "AURC ‰ ↓",
}


class Cell(NamedTuple):
    """A cell's HTML, and what it is sorted by; None sorts last whichever way."""

    html: str
    key: float | str | None = None


def main_table(result: BenchResult) -> str:
    """One row a method: the average over the OOD sets, and what was published."""
    headings, columns = ["Method"], []
    partly = any(
        set(_published_sets(result, m)) != set(result.sets) for m in result.methods if _published_sets(result, m)
    )
    for metric in LABELS:
        cells = _column(result, metric)
        if all(cell.key is None for cell in cells):
            continue
        headings.append(_heading(result, metric))
        columns.append(cells)
        published = _published_average(result, metric)
        if any(cell.key is not None for cell, _ in published):
            headings += ["published,\nsame sets", "difference"] if partly else ["published", "difference"]
            columns += [[cell for cell, _ in published], [cell for _, cell in published]]
    methods = [*result.methods, *_only_published(result)]
    rows = [[name_cell(name), *(cells[i] for cells in columns)] for i, name in enumerate(methods)]
    caption = f"Average over {len(result.sets)} OOD {'set' if len(result.sets) == 1 else 'sets'}, in percent"
    return sortable("main", caption, headings, rows, sorted_by=1)


def detail_table(result: BenchResult) -> str:
    """One row a method and OOD set, with what was published."""
    metrics = [m for m in LABELS if m != "aurc" and any(result.value(k, s, m) is not None for k, s in _pairs(result))]
    published = [m for m in ("auroc", "fpr") if any(_published(result, k, s, m) is not None for k, s in _pairs(result))]
    spread = [m for m in metrics if any(result.std(k, s, m) is not None for k, s in _pairs(result))]
    headings = ["Method", "OOD set"]
    for metric in metrics:
        headings.append(_heading(result, metric))
        headings += ["published", "difference"] if metric in published else []
    rows = []
    for method, ood in _pairs(result):
        row = [name_cell(method), Cell(_set_name(result, ood), ood)]
        for metric in metrics:
            ours, theirs = result.value(method, ood, metric), _published(result, method, ood, metric)
            row.append(value_cell(ours, result.std(method, ood, metric), spread_column=metric in spread))
            if metric in published:
                row += [value_cell(theirs), difference_cell(ours, theirs)]
        rows.append(row)
    return sortable("detail", "Each method on each OOD set, in percent", headings, rows, text=2)


def heat_map(result: BenchResult, metric: str) -> str:
    """Methods x OOD sets and their average; the value stands in each cell, a stronger colour is better."""
    names = [*result.sets, None]
    values = [[result.value(method, name, metric) for name in names] for method in result.methods]
    known = [value for row in values for value in row if value is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    best = [_best([row[i] for row in values], metric) for i in range(len(names))]
    head = "".join(f'<th scope="col">{"average" if name is None else _set_name(result, name)}</th>' for name in names)
    body = []
    for method, row in zip(result.methods, values, strict=True):
        cells = "".join(_heat_cell(v, low, high, metric, best[i]) for i, v in enumerate(row))
        body.append(f'<tr><th scope="row">{escape(method)}</th>{cells}</tr>')
    worst, good = (high, low) if metric == "fpr" else (low, high)
    heading = _heading(result, metric)
    caption = f"{heading} in percent, methods by OOD sets"
    return (
        f'<div class="heat" data-metric="{metric}">'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}">'
        f'<table class="heatmap" style="min-width:{6 * len(names) + 9.5}rem"><caption>{caption}</caption>'
        f'<thead><tr><th scope="col">Method</th>{head}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
        f'<p class="ramp"><span>{percent(worst)}</span><i aria-hidden="true"></i><span>{percent(good)}</span>'
        '<span class="muted">a stronger colour is better; ★ is the best of its column</span></p></div>'
    )


def parameter_table(result: BenchResult) -> str:
    """The parameters of each method."""
    rows = []
    for method in result.methods:
        params = result.document["results"][method].get("params")
        if isinstance(params, Mapping) and params:
            rows.append([name_cell(method), Cell(escape(plain(params)), plain(params))])
    return sortable("params", "Parameters", ["Method", "Parameters"], rows, text=2) if rows else ""


def sortable(  # noqa: PLR0917 (the parts of a table)
    key: str, caption: str, headings: Sequence[str], rows: Sequence[Sequence[Cell]], text: int = 1, sorted_by: int = -1
) -> str:
    """Return a table in a box that scrolls by itself; its first `text` columns are text, headings are buttons."""
    head = "".join(
        f'<th scope="col" aria-sort="{"descending" if i == sorted_by else "none"}"{"" if i < text else _NUM}>'
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
        f'<table class="sortable" id="table-{key}"><caption>{escape(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


_NUM = ' class="num"'


def name_cell(name: str) -> Cell:
    """Return a cell with a name."""
    return Cell(escape(name), name)


def value_cell(
    value: float | None, std: float | None = None, *, best: bool = False, spread_column: bool = False
) -> Cell:
    """Return a share in percent, with its standard deviation, and a star if it is the best of its column.

    In a column where others have a standard deviation, one without leaves its place empty, so that numbers align.

    >>> value_cell(0.98, 0.001).html
    '<span class="v">98.00</span> <span class="sd">± 0.10</span>'
    """
    if value is None:
        return Cell('<span class="none">–</span>')  # noqa: RUF001 (a dash)
    star = '<span class="star" title="best">★<span class="hidden"> best</span></span> ' if best else ""
    place = ' <span class="sd"></span>' if spread_column else ""
    spread = place if std is None else f' <span class="sd">± {percent(std)}</span>'
    tag = "strong" if best else "span"
    return Cell(f'{star}<{tag} class="v">{percent(value)}</{tag}>{spread}', value)


def difference_cell(ours: float | None, theirs: float | None) -> Cell:
    """Return how much more ours is, in percentage points, with a class for its size.

    >>> difference_cell(0.98, 0.99).html
    '<span class="some">−1.00</span>'
    """
    if ours is None or theirs is None:
        return value_cell(None)
    points = 100 * (ours - theirs)
    size = "close" if abs(points) <= 0.5 else "some" if abs(points) <= 2 else "far"
    return Cell(f'<span class="{size}">{typeset(f"{points:+.2f}")}</span>', points)


def percent(share: float) -> str:
    """Return a share as a percentage with two decimals.

    >>> percent(0.98765)
    '98.77'
    """
    return f"{100 * share:.2f}"


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
        nested = {key: f"({inner[key]})" if isinstance(value[key], Mapping | list) else inner[key] for key in inner}
        return ", ".join(f"{key} = {text}" for key, text in nested.items())
    if isinstance(value, list):
        return ", ".join(map(plain, value))
    if value is None or isinstance(value, bool):
        return "none" if value is None else "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def same_sets(result: BenchResult, method: str, metric: str) -> list[str]:
    """Return the OOD sets on which a method has both a measured and a published number."""
    return [
        ood
        for ood in result.sets
        if result.value(method, ood, metric) is not None and _published(result, method, ood, metric) is not None
    ]


def _column(result: BenchResult, metric: str) -> list[Cell]:
    if metric == "aurc":
        # In thousandths where the others are in hundredths.
        found = [number(result.document["results"][method].get("aurc")) for method in result.methods]
        values = [None if value is None else 10 * value for value in found]
        stds: list[float | None] = [None] * len(values)
    else:
        values = [result.value(method, None, metric) for method in result.methods]
        stds = [result.std(method, None, metric) for method in result.methods]
    best = _best(values, metric)
    cells = [value_cell(v, std, best=v is not None and v == best) for v, std in zip(values, stds, strict=True)]
    return cells + [value_cell(None)] * len(_only_published(result))


def _published_average(result: BenchResult, metric: str) -> list[tuple[Cell, Cell]]:
    """Ours against theirs over the sets that both have; the printed average where they are all of the printed."""
    pairs = []
    for method in result.methods:
        common = same_sets(result, method, metric)
        printed = _published_sets(result, method)
        if set(common) == set(result.sets) == set(printed):
            ours = result.value(method, None, metric)
            theirs = _published(result, method, None, metric)
        elif common:
            ours = math.fsum(result.value(method, s, metric) or 0 for s in common) / len(common)
            theirs = math.fsum(_published(result, method, s, metric) or 0 for s in common) / len(common)
        else:
            ours = theirs = None
        pairs.append((value_cell(theirs), difference_cell(ours, theirs)))
    only = [_published(result, method, None, metric) for method in _only_published(result)]
    return pairs + [(value_cell(theirs), value_cell(None)) for theirs in only]


def _only_published(result: BenchResult) -> list[str]:
    measured = result.document["results"]
    return [m for m in result.part("published") if m not in measured and _published(result, m, None, "auroc")]


def _published(result: BenchResult, method: str, ood: str | None, metric: str) -> float | None:
    return result.value(method, ood, metric, "published")


def _published_sets(result: BenchResult, method: str) -> list[str]:
    entry = result.part("published").get(method)
    return [name for name in entry if name != "average"] if isinstance(entry, Mapping) else []


def _pairs(result: BenchResult) -> list[tuple[str, str]]:
    return [(method, ood) for method in result.methods for ood in result.sets]


def _best(values: Sequence[float | None], metric: str) -> float | None:
    known = [value for value in values if value is not None]
    if len(set(known)) < 2:  # where all are equal, none is best
        return None
    return max(known) if LABELS[metric].endswith("↑") else min(known)


def _heat_cell(value: float | None, low: float, high: float, metric: str, best: float | None) -> str:
    if value is None:
        return '<td class="none">–</td>'  # noqa: RUF001 (a dash)
    share = (value - low) / (high - low) if high > low else 1.0
    good = 1 - share if metric == "fpr" else share
    star = '<span class="star">★<span class="hidden"> best</span></span>' if value == best else ""
    strong = ' class="strong"' if good > 0.55 else ""  # where the text must turn to the page's colour
    return f'<td style="--good:{good:.3f}"{strong}>{star}{percent(value)}</td>'


def _heading(result: BenchResult, metric: str) -> str:
    return f"{result.fpr_name} ↓" if metric == "fpr" else LABELS[metric]


def _set_name(result: BenchResult, name: str) -> str:
    near = result.document.get("near")
    tag = ' <span class="tag">near</span>' if isinstance(near, list) and name in near else ""
    return escape(name) + tag
