"""Plots of a result for papers: PNG, SVG and PDF by matplotlib, the same bytes every time."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray
from typica.bench._chart_data import Chart
from typica.bench._open_result import ResultFolder, open_result
from typica.bench._record import Record
from typica.bench._runs import Scores
from typica.errors import InputError, border
from typica.extras import need
from typica.files import atomic_path
from typica.metrics import METRICS, evaluate
from typica.written_numbers import percent

FORMATS: Final = {  # suffix -> metadata that would hold the date, or the library's version
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
STYLE: Final = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 9,
    "figure.dpi": 100,
    "font.size": 8,
    "hatch.linewidth": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "pdf.fonttype": 42,
    "savefig.dpi": 300,
    "svg.hashsalt": "typica",
}
ID_COLOUR, OOD_COLOUR = "#0072B2", "#D55E00"
# Okabe and Ito's colours, safe for the colour-blind; lines differ in their dashes too.
COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES: Final[tuple[Any, ...]] = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)), (0, (3, 2)))
MOST_LINES = 6  # in one panel, unless methods are named
COLUMN, PAGE = 3.3, 7.0  # widths of a column and a page, in inches

Points = tuple[AnyArray, AnyArray]
# Labels of x and y, and what to draw.
Panels = list[tuple[str, str, Callable[[AnyArray, AnyArray], Points]]]


@border
def plot(
    result_folder: str | os.PathLike[str],
    out: str | os.PathLike[str],
    kind: str = "histogram",
    methods: Sequence[str] | None = None,
) -> Path:
    """Draw a result as one of `PLOTS` to a .png, .svg or .pdf file; return its path.

    Parameters
    ----------
    result_folder
        What `typica bench -o` wrote.
    out
        The file to write; its suffix sets the format.
    kind
        "histogram" (ID against each OOD set, a row per method), "roc", "pr" (a panel per OOD set, a
        line per method), "heatmap" (methods x OOD sets) or "curves" (of the analysis).
    methods
        Names of methods. If None: CTM, or else the best, in a histogram; the best six as lines; all
        in the heat map.
    """
    out = Path(out)
    if kind not in PLOTS:
        raise InputError(f"kind={kind!r}; pass one of {', '.join(PLOTS)}.")
    if out.suffix not in FORMATS:
        raise InputError(f"{out} ends in {out.suffix!r}; choose one of {', '.join(FORMATS)}.")
    result = open_result(result_folder)
    if unknown := sorted(set(methods or ()) - set(result.record.rows)):
        known = ", ".join(result.record.ranked)
        raise InputError(f"{', '.join(unknown)} not in the result; choose from {known}.")
    with _style():
        figure = PLOTS[kind](result, list(methods or ()))
        drawn = io.BytesIO()
        settings = {"metadata": FORMATS[out.suffix], "bbox_inches": "tight"}
        figure.savefig(drawn, format=out.suffix[1:], **settings)
    # Not by Matplotlib itself, which fails in its own ways where the disk is full.
    with atomic_path(out) as temporary:
        temporary.write_bytes(drawn.getvalue())
    return out


@contextmanager
def _style() -> Iterator[None]:
    with _matplotlib("matplotlib").rc_context(STYLE):
        yield


def _matplotlib(module: str) -> Any:
    return need(module, "plot")


def _columns(panels: int) -> int:
    """Return how many panels stand side by side: few in one row, others in full rows of 4 or 3."""
    if panels < 5:
        return panels
    return 3 if panels % 4 else 4


def _panels(blocks: int, panels: int) -> tuple[Any, list[list[Any]]]:
    """Return a figure and `blocks` times `panels` axes, each block folded to a page's width."""
    columns = _columns(panels)
    rows = math.ceil(panels / columns)
    width = COLUMN * columns if columns < 3 else PAGE
    # A figure of its own, not pyplot's: nothing is kept in the library's global state.
    size = (width, (width / columns * 0.85 + 0.15) * rows * blocks)
    figure = _matplotlib("matplotlib.figure").Figure(figsize=size, layout="constrained")
    flat = list(figure.subplots(rows * blocks, columns, squeeze=False).flat)
    made = []
    for first in range(0, len(flat), rows * columns):
        for spare in flat[first + panels : first + rows * columns]:
            spare.remove()
        made.append(flat[first : first + panels])
    return figure, made


def _legend(figure: Any, axis: Any) -> None:
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 6))


def _scores(result: ResultFolder, methods: Sequence[str]) -> dict[str, Scores]:
    found = {name: result.scores[name] for name in methods if name in result.scores}
    if not found:
        what = f"{result.path} holds no scores of {', '.join(methods)}"
        raise InputError(f"{what}; run the benchmark again.")
    return found


def _histograms(result: ResultFolder, methods: list[str]) -> Any:
    record = result.record
    chosen = methods or (["ctm"] if "ctm" in record.rows else record.ranked[:1])
    found = _scores(result, chosen)
    figure, axes = _panels(len(found), len(record.sets))
    for row, (method, scores) in zip(axes, found.items(), strict=True):
        edges = np.linspace(*_range(scores), 41)
        for axis, name in zip(row, record.sets, strict=True):
            if name not in scores.ood:
                axis.set_axis_off()
                continue
            _draw_histogram(axis, scores.test, scores.ood[name], edges, record)
            axis.set_title(_text(name))
            axis.set_xlabel(f"score of {_text(method)}")
    _legend(figure, axes[0][0])
    return figure


def _draw_histogram(
    axis: Any, test: AnyArray, ood: AnyArray, edges: AnyArray, record: Record
) -> None:
    """Draw the shares of ID and OOD scores, and the threshold where it is in sight."""
    looks: dict[str, dict[str, Any]] = {
        "ID": {"facecolor": (*_rgb(ID_COLOUR), 0.3), "edgecolor": ID_COLOUR, "hatch": None},
        "OOD": {"facecolor": "none", "edgecolor": OOD_COLOUR, "hatch": "/////"},
    }
    for (label, look), values in zip(looks.items(), (test, ood), strict=True):
        axis.hist(
            np.clip(values, edges[0], edges[-1]),
            bins=edges,
            histtype="stepfilled",
            linewidth=1,
            weights=np.full(len(values), 1 / len(values)),
            label=label,
            **look,
        )
    protocol = record.protocol
    threshold = evaluate(test, ood, protocol.tpr, convention=protocol.convention).threshold
    if edges[0] <= threshold <= edges[-1]:
        axis.axvline(threshold, color="black", linewidth=0.9, linestyle=(0, (4, 2)))
    in_percent = _matplotlib("matplotlib.ticker").PercentFormatter(1, decimals=0)
    axis.yaxis.set_major_formatter(in_percent)
    if axis.get_subplotspec().is_first_col():
        axis.set_ylabel("share of the set")


def _text(name: str) -> str:
    """Return a name as it is drawn: what stands between dollar signs would become a formula."""
    return name.replace("$", r"\$")


def _rgb(colour: str) -> tuple[float, ...]:
    return tuple(int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))


def _range(scores: Scores) -> tuple[float, float]:
    """Return the range of scores to draw: most of all, and ID on at least a fifth of it."""

    def ends(values: AnyArray, share: float) -> tuple[float, float]:
        finite = values[np.isfinite(values)]
        low, high = np.quantile(finite, (share, 1 - share)) if len(finite) else (0.0, 0.0)
        return float(low), float(high)

    id_low, id_high = ends(scores.test, 0.001)
    width = id_high - id_low or abs(id_low) or 1.0
    others = [ends(values, 0.005) for values in scores.ood.values()]
    low = max(min(id_low, *(low for low, _ in others)), id_low - 2 * width)
    high = min(max(id_high, *(high for _, high in others)), id_high + 2 * width)
    if high > low:
        return (low, high)
    return (low - 0.5, high + 0.5)


def _roc(result: ResultFolder, methods: list[str]) -> Any:
    return _lines(result, methods, [("OOD accepted (FPR)", "ID accepted (TPR)", _roc_points)])


def _precision_recall(result: ResultFolder, methods: list[str]) -> Any:
    panels: Panels = [
        ("recall of ID", "precision of accepted", _accepted_points),
        ("recall of OOD", "precision of rejected", _rejected_points),
    ]
    return _lines(result, methods, panels)


def _lines(result: ResultFolder, methods: list[str], panels: Panels) -> Any:
    record = result.record
    found = _scores(result, methods or record.ranked[:MOST_LINES])
    figure, axes = _panels(len(panels), len(record.sets))
    for row, (x_label, y_label, points) in zip(axes, panels, strict=True):
        for axis, name in zip(row, record.sets, strict=True):
            for i, (method, scores) in enumerate(found.items()):
                if name in scores.ood:
                    x, y = points(scores.test, scores.ood[name])
                    axis.plot(x, y, label=_text(method), **_line(i))
            axis.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xlabel=x_label, title=_text(name))
            axis.grid(linewidth=0.4, color="0.88")
            if axis.get_subplotspec().is_first_col():
                axis.set_ylabel(y_label)
    _legend(figure, axes[0][0])
    return figure


def _line(i: int) -> dict[str, Any]:
    return {"color": COLOURS[i % len(COLOURS)], "linestyle": DASHES[i % len(DASHES)]}


def _counts_along_curve(test: AnyArray, ood: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Return how many ID and OOD scores the thresholds of a plotted curve accept, highest first."""
    thresholds = np.unique(np.concatenate([test, ood]))[::-1]
    kept = len(test) - np.searchsorted(np.sort(test), thresholds, side="left")
    missed = len(ood) - np.searchsorted(np.sort(ood), thresholds, side="left")
    return kept, missed


def _roc_points(test: AnyArray, ood: AnyArray) -> Points:
    kept, missed = _counts_along_curve(test, ood)
    return np.append(0, missed) / len(ood), np.append(0, kept) / len(test)


def _accepted_points(test: AnyArray, ood: AnyArray) -> Points:
    kept, missed = _counts_along_curve(test, ood)
    return kept / len(test), kept / (kept + missed)


def _rejected_points(test: AnyArray, ood: AnyArray) -> Points:
    kept, missed = _counts_along_curve(test, ood)
    # Just above each threshold: what is rejected is all that the one above does not accept.
    lost, caught = len(test) - np.append(0, kept[:-1]), len(ood) - np.append(0, missed[:-1])
    return caught / len(ood), caught / (caught + lost)


def _heat_map(result: ResultFolder, methods: list[str]) -> Any:
    record = result.record
    chosen = [name for name in record.ranked if not methods or name in methods]
    labels = [_text(name) for name in (*record.sets, f"mean of {len(record.sets)}")]
    size = (max(PAGE, 1.1 * len(labels) + 1), 0.24 * len(chosen) + 1)
    figure = _matplotlib("matplotlib.figure").Figure(figsize=size, layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    for axis, name in zip(axes, ("auroc", "fpr"), strict=True):
        metric = METRICS[name]
        _draw_heat(axis, _values(record, chosen, name), good_is_high=metric.better == "higher")
        axis.set_xticks(range(len(labels)), labels, rotation=30, ha="right")
        axis.set_yticks(range(len(chosen)), map(_text, chosen))
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
        axis.set_title(f"{metric.title(record.protocol.tpr)}, %")
    return figure


def _values(record: Record, methods: Sequence[str], metric: str) -> NDArray[np.float64]:
    """Return methods x OOD sets and their mean; NaN where there is no number."""
    names: list[str | None] = [*record.sets, None]
    values = np.full((len(methods), len(names)), math.nan)
    for i, method in enumerate(methods):
        for j, name in enumerate(names):
            found = record.value(method, name, metric)
            if found is not None:
                values[i, j] = found
    return values


def _draw_heat(axis: Any, values: NDArray[np.float64], *, good_is_high: bool) -> None:
    """Draw a heat map whose good end is light, with the numbers in it."""
    image = axis.imshow(values, cmap="cividis" if good_is_high else "cividis_r", aspect="auto")
    low, high = image.get_clim()
    for (i, j), value in np.ndenumerate(values):
        share = (value - low) / (high - low) if high > low else 1.0
        dark = share <= 0.55 if good_is_high else share >= 0.45
        text = "-" if math.isnan(value) else percent(value)
        colour = "white" if dark else "black"
        axis.text(j, i, text, ha="center", va="center", fontsize=7, color=colour)


def _curves(result: ResultFolder, methods: list[str]) -> Any:
    if not result.curves:
        command = f"typica bench SUITE --experiment analysis -o {result.path}"
        raise InputError(f"{result.path}: has no curves in analysis.json; run `{command}`.")
    figure, axes = _panels(1, len(result.curves))
    for axis, chart in zip(axes[0], result.curves, strict=True):
        _draw_curves(axis, chart)
    _legend(figure, axes[0][0])
    return figure


def _draw_curves(axis: Any, chart: Chart) -> None:
    for i, line in enumerate(chart.series):
        axis.plot(line.x, line.y, label=_text(line.name), **_line(i))
    x = chart.series[0].x
    if min(x) > 0 and max(x) >= 100 * min(x):
        axis.set_xscale("log")
    axis.set(xlabel=_text(chart.x_label), ylabel=_text(chart.y_label), title=_text(chart.title))
    axis.grid(linewidth=0.4, color="0.88")


PLOTS: Final[dict[str, Callable[[ResultFolder, list[str]], Any]]] = {
    "histogram": _histograms,
    "roc": _roc,
    "pr": _precision_recall,
    "heatmap": _heat_map,
    "curves": _curves,
}
