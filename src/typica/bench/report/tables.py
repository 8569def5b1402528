"""The report's tables as HTML: everything that can be read without the script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from typica.bench.averages import average_over, coverage, paper_average, sets_in_common
from typica.bench.report.folder import BenchResult, number
from typica.bench.report.html import (
    Cell,
    capital,
    difference_cell,
    name_cell,
    percent,
    plain,
    sortable,
    value_cell,
)

LABELS = {  # metric -> heading; the arrow says which way is better
    "auroc": "AUROC ↑",
    "fpr": "FPR ↓",
    "aupr_in": "AUPR-in ↑",
    "aupr_out": "AUPR-out ↑",
    "detection_error": "Det. error ↓",
}


def main_table(result: BenchResult) -> str:
    """One row a method: its mean over all OOD sets, with what was published where that covers the same sets."""
    beside = set(_in_common(result)) == set(result.sets)
    caption = f"{capital(coverage(result.sets, result.sets))}, in percent"
    return _averages(result, "main", caption, result.sets, list(LABELS), beside=beside)


def paper_table(result: BenchResult) -> str:
    """One row a method: means over the OOD sets that were published too, ours and theirs; "" where these are all."""
    common = _in_common(result)
    if not common or set(common) == set(result.sets):
        return ""
    caption = f"Beside the published numbers: {coverage(common, result.sets)}, in percent"
    return _averages(result, "paper", caption, common, ["auroc", "fpr"], beside=True)


def detail_table(result: BenchResult) -> str:
    """One row a method and OOD set, with what was published."""
    metrics = [
        m for m in LABELS if any(result.value(k, s, m) is not None for k, s in _pairs(result))
    ]
    published = [
        m
        for m in ("auroc", "fpr")
        if any(_published(result, k, s, m) is not None for k, s in _pairs(result))
    ]
    spread = [m for m in metrics if any(result.std(k, s, m) is not None for k, s in _pairs(result))]
    headings = ["Method", "OOD set"]
    for metric in metrics:
        headings.append(_heading(result, metric))
        headings += ["published", "difference"] if metric in published else []
    rows = []
    for method, ood in _pairs(result):
        row = [name_cell(method), Cell(_set_name(result, ood), ood)]
        for metric in metrics:
            ours, theirs = (
                result.value(method, ood, metric),
                _published(result, method, ood, metric),
            )
            row.append(
                value_cell(ours, result.std(method, ood, metric), spread_column=metric in spread)
            )
            if metric in published:
                row += [value_cell(theirs), difference_cell(ours, theirs)]
        rows.append(row)
    return sortable("detail", "Each method on each OOD set, in percent", headings, rows, text=2)


def heat_map(result: BenchResult, metric: str) -> str:
    """Methods x OOD sets and their mean; the value stands in each cell, a stronger colour is better."""
    names = [*result.sets, None]
    values = [[result.value(method, name, metric) for name in names] for method in result.methods]
    known = [value for row in values for value in row if value is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    best = [_best([row[i] for row in values], metric) for i in range(len(names))]
    mean = f"mean of {len(result.sets)}"
    head = "".join(
        f'<th scope="col">{mean if name is None else _set_name(result, name)}</th>'
        for name in names
    )
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
        f'<table class="heatmap" style="min-width:{6 * len(names) + 9.5}rem"><caption><span>{caption}</span></caption>'
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


def _averages(
    result: BenchResult,
    key: str,
    caption: str,
    names: Sequence[str],
    metrics: Sequence[str],
    *,
    beside: bool,
) -> str:
    """Return a table of means over these OOD sets, and of what was published for the same ones."""
    ours = {
        method: average_over(result.document["results"][method], names) for method in result.methods
    }
    entries = {m: e for m, e in result.part("published").items() if isinstance(e, Mapping)}
    theirs = (
        {method: paper_average(entry, names) for method, entry in entries.items()} if beside else {}
    )
    only = [method for method, found in theirs.items() if method not in ours and found]
    headings, columns = ["Method"], []
    for metric in metrics:
        values = {method: number(found.get(metric)) for method, found in ours.items()}
        if all(value is None for value in values.values()):
            continue
        best = _best(list(values.values()), metric)
        stds = {
            method: number(found.get(f"{metric}_std")) or None for method, found in ours.items()
        }
        headings.append(_heading(result, metric))
        columns.append(
            [value_cell(v, stds[m], best=v is not None and v == best) for m, v in values.items()]
        )
        columns[-1] += [value_cell(None)] * len(only)
        printed = {method: number(theirs.get(method, {}).get(metric)) for method in (*ours, *only)}
        if any(value is not None for value in printed.values()):
            headings += ["published", "difference"]
            columns.append([value_cell(value) for value in printed.values()])
            columns.append(
                [difference_cell(values.get(method), value) for method, value in printed.items()]
            )
    rows = [
        [name_cell(name), *(cells[i] for cells in columns)] for i, name in enumerate((*ours, *only))
    ]
    rows.sort(key=lambda row: -row[1].key if len(row) > 1 and isinstance(row[1].key, float) else 1)
    return sortable(key, caption, headings, rows, sorted_by=1)


def _in_common(result: BenchResult) -> list[str]:
    return sets_in_common(result.part("published"), result.sets)


def _published(result: BenchResult, method: str, ood: str, metric: str) -> float | None:
    return result.value(method, ood, metric, "published")


def _pairs(result: BenchResult) -> list[tuple[str, str]]:
    return [(method, ood) for method in result.methods for ood in result.sets]


def _best(values: Sequence[float | None], metric: str) -> float | None:
    known = [value for value in values if value is not None]
    if len(set(known)) < 2:  # where all are equal, none is best
        return None
    return max(known) if LABELS[metric].endswith("↑") else min(known)


def _heat_cell(
    value: float | None, low: float, high: float, metric: str, best: float | None
) -> str:
    if value is None:
        return '<td class="none">–</td>'  # noqa: RUF001 (a dash)
    share = (value - low) / (high - low) if high > low else 1.0
    good = 1 - share if metric == "fpr" else share
    star = '<span class="star">★<span class="hidden"> best</span></span>' if value == best else ""
    strong = (
        ' class="strong"' if good > 0.55 else ""
    )  # where the text must turn to the page's colour
    return f'<td style="--good:{good:.3f}"{strong}>{star}{percent(value)}</td>'


def _heading(result: BenchResult, metric: str) -> str:
    return f"{result.fpr_name} ↓" if metric == "fpr" else LABELS[metric]


def _set_name(result: BenchResult, name: str) -> str:
    near = result.document.get("near")
    tag = ' <span class="tag">near</span>' if isinstance(near, list) and name in near else ""
    return escape(name) + tag
