"""Plots of a benchmark's result for papers: PNG, SVG and PDF by matplotlib, the same bytes every time."""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from typica.bench.report.folder import BenchResult, Scores, open_result
from typica.bench.report.html import percent
from typica.bench.report.payload import curves as analysis_curves
from typica.errors import InputError
from typica.files import atomic_path
from typica.metrics import evaluate

FORMATS: Final = {  # suffix -> metadata that would hold the date of writing, or the library's version
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

Points = tuple[NDArray[Any], NDArray[Any]]
Panels = list[
    tuple[str, str, Callable[[NDArray[Any], NDArray[Any]], Points]]
]  # labels of x and y, what to draw


def plot(
    result_folder: str | os.PathLike[str],
    out: str | os.PathLike[str],
    kind: str = "histogram",
    methods: Sequence[str] | None = None,
) -> Path:
    """Draw a result as one of `KINDS` to a .png, .svg or .pdf file; return its path.

    Parameters
    ----------
    result_folder : what `typica bench -o` wrote.
    out : the file; its suffix says the format.
    kind : "histogram" (ID against each OOD set, a row a method), "roc", "pr" (a panel an OOD set, a line a method),
        "heatmap" (methods x OOD sets) or "curves" (those of the folder's analysis).
    methods : their names; None for CTM, or the best, in a histogram, the best six as lines, and all in the heat map.
    """
    out = Path(out)
    if kind not in KINDS:
        raise InputError(f"plot: kind={kind!r}; pass one of {', '.join(KINDS)}.")
    if out.suffix not in FORMATS:
        raise InputError(f"plot: {out} ends in {out.suffix!r}; choose one of {', '.join(FORMATS)}.")
    result = open_result(result_folder)
    if unknown := sorted(set(methods or ()) - set(result.methods)):
        raise InputError(
            f"plot: {', '.join(unknown)} not in the result; choose from {', '.join(result.methods)}."
        )
    with _style():
        figure = KINDS[kind](result, list(methods or ()))
        with atomic_path(out) as temporary:
            figure.savefig(
                temporary, format=out.suffix[1:], metadata=FORMATS[out.suffix], bbox_inches="tight"
            )
    return out


@contextmanager
def _style() -> Iterator[None]:
    with _matplotlib("matplotlib").rc_context(STYLE):
        yield


def _matplotlib(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise InputError("Plots need the extra 'plot': pip install 'typica[plot]'.") from None


def _panels(blocks: int, panels: int) -> tuple[Any, list[list[Any]]]:
    """Return a figure and `blocks` times `panels` axes, each block folded to the width of a page."""
    columns = panels if panels < 5 else 3 if panels % 4 else 4
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


def _scores(result: BenchResult, methods: Sequence[str]) -> dict[str, Scores]:
    found = {
        name: scores
        for name in methods
        if (scores := result.scores(name)) is not None and scores.ood
    }
    if not found:
        raise InputError(
            f"plot: {result.folder} holds no scores of {', '.join(methods)}; run the benchmark again."
        )
    return found


def _histograms(result: BenchResult, methods: list[str]) -> Any:
    chosen = methods or (["ctm"] if "ctm" in result.methods else result.methods[:1])
    found = _scores(result, chosen)
    figure, axes = _panels(len(found), len(result.sets))
    for row, (method, scores) in zip(axes, found.items(), strict=True):
        edges = np.linspace(*_range(scores), 41)
        for axis, (name, ood) in zip(row, _sets(result, scores), strict=True):
            if ood is None:
                axis.set_axis_off()
                continue
            threshold = evaluate(
                scores.test, ood, result.tpr, convention=result.convention
            ).threshold
            common = {"bins": edges, "histtype": "stepfilled", "linewidth": 1}
            for values, colour, label in ((scores.test, ID_COLOUR, "ID"), (ood, OOD_COLOUR, "OOD")):
                clipped = np.clip(values, edges[0], edges[-1])
                hatch = "/////" if label == "OOD" else None
                face = "none" if label == "OOD" else (*_rgb(colour), 0.3)
                weights = np.full(len(values), 1 / len(values))
                axis.hist(
                    clipped,
                    **common,
                    weights=weights,
                    facecolor=face,
                    edgecolor=colour,
                    hatch=hatch,
                    label=label,
                )
            if edges[0] <= threshold <= edges[-1]:
                axis.axvline(threshold, color="black", linewidth=0.9, linestyle=(0, (4, 2)))
            axis.set_title(_text(name))
            axis.set_xlabel(f"score of {_text(method)}")
            axis.yaxis.set_major_formatter(
                _matplotlib("matplotlib.ticker").PercentFormatter(1, decimals=0)
            )
            if axis.get_subplotspec().is_first_col():
                axis.set_ylabel("share of the set")
    _legend(figure, axes[0][0])
    return figure


def _text(name: str) -> str:
    """Return a name as it is drawn: matplotlib reads what stands between dollar signs as a formula."""
    return name.replace("$", r"\$")


def _rgb(colour: str) -> tuple[float, ...]:
    return tuple(int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))


def _sets(result: BenchResult, scores: Scores) -> list[tuple[str, NDArray[Any] | None]]:
    return [(name, scores.ood.get(name)) for name in result.sets]


def _range(scores: Scores) -> tuple[float, float]:
    """Return the range of scores to draw: most of all, and ID on at least a fifth of it."""

    def ends(values: NDArray[Any], share: float) -> tuple[float, float]:
        finite = values[np.isfinite(values)]
        low, high = np.quantile(finite, (share, 1 - share)) if len(finite) else (0.0, 0.0)
        return float(low), float(high)

    id_low, id_high = ends(scores.test, 0.001)
    width = id_high - id_low or abs(id_low) or 1.0
    others = [ends(values, 0.005) for values in scores.ood.values()]
    low = max(min(id_low, *(low for low, _ in others)), id_low - 2 * width)
    high = min(max(id_high, *(high for _, high in others)), id_high + 2 * width)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _roc(result: BenchResult, methods: list[str]) -> Any:
    return _lines(result, methods, [("OOD accepted (FPR)", "ID accepted (TPR)", _roc_points)])


def _precision_recall(result: BenchResult, methods: list[str]) -> Any:
    panels: Panels = [
        ("recall of ID", "precision of accepted", _accepted_points),
        ("recall of OOD", "precision of rejected", _rejected_points),
    ]
    return _lines(result, methods, panels)


def _lines(result: BenchResult, methods: list[str], panels: Panels) -> Any:
    found = _scores(result, methods or result.methods[:MOST_LINES])
    figure, axes = _panels(len(panels), len(result.sets))
    for row, (x_label, y_label, points) in zip(axes, panels, strict=True):
        for axis, name in zip(row, result.sets, strict=True):
            for i, (method, scores) in enumerate(found.items()):
                if name in scores.ood:
                    axis.plot(
                        *points(scores.test, scores.ood[name]), label=_text(method), **_line(i)
                    )
            axis.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xlabel=x_label, title=_text(name))
            axis.grid(linewidth=0.4, color="0.88")
            if axis.get_subplotspec().is_first_col():
                axis.set_ylabel(y_label)
    _legend(figure, axes[0][0])
    return figure


def _line(i: int) -> dict[str, Any]:
    return {"color": COLOURS[i % len(COLOURS)], "linestyle": DASHES[i % len(DASHES)]}


def _counts(test: NDArray[Any], ood: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return how many ID and OOD scores each threshold accepts: every distinct score, from the highest down."""
    thresholds = np.unique(np.concatenate([test, ood]))[::-1]
    return tuple(len(s) - np.searchsorted(np.sort(s), thresholds, side="left") for s in (test, ood))  # type: ignore[return-value]


def _roc_points(test: NDArray[Any], ood: NDArray[Any]) -> Points:
    kept, missed = _counts(test, ood)
    return np.append(0, missed) / len(ood), np.append(0, kept) / len(test)


def _accepted_points(test: NDArray[Any], ood: NDArray[Any]) -> Points:
    kept, missed = _counts(test, ood)
    return kept / len(test), kept / (kept + missed)


def _rejected_points(test: NDArray[Any], ood: NDArray[Any]) -> Points:
    kept, missed = _counts(test, ood)
    # Just above each threshold: what is rejected is all that the one above does not accept.
    lost, caught = len(test) - np.append(0, kept[:-1]), len(ood) - np.append(0, missed[:-1])
    return caught / len(ood), caught / (caught + lost)


def _heat_map(result: BenchResult, methods: list[str]) -> Any:
    chosen = [name for name in result.methods if not methods or name in methods]
    names: list[str | None] = [*result.sets, None]
    width, height = max(PAGE, 1.1 * len(names) + 1), 0.24 * len(chosen) + 1
    figure = _matplotlib("matplotlib.figure").Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    for axis, metric, title in zip(axes, ("auroc", "fpr"), ("AUROC", result.fpr_name), strict=True):
        found = [[result.value(method, name, metric) for name in names] for method in chosen]
        values = np.array(
            [[math.nan if value is None else value for value in row] for row in found]
        )
        image = axis.imshow(
            values, cmap="cividis" if metric == "auroc" else "cividis_r", aspect="auto"
        )
        low, high = image.get_clim()
        for (i, j), value in np.ndenumerate(values):
            share = (value - low) / (high - low) if high > low else 1.0
            light = not (
                share <= 0.55 if metric == "auroc" else share >= 0.45
            )  # the good end of the map, and no value
            text = "-" if math.isnan(value) else percent(value)
            axis.text(
                j,
                i,
                text,
                ha="center",
                va="center",
                fontsize=7,
                color="black" if light else "white",
            )
        labels = [_text(name or f"mean of {len(result.sets)}") for name in names]
        axis.set_xticks(range(len(names)), labels, rotation=30, ha="right")
        axis.set_yticks(range(len(chosen)), map(_text, chosen))
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
        axis.set_title(f"{title}, %")
    return figure


def _curves(result: BenchResult, methods: list[str]) -> Any:
    charts = analysis_curves(result.analysis.get("curves"))
    if not charts:
        where = f"{result.folder}: has no curves in analysis.json"
        raise InputError(
            f"{where}; run `typica bench SUITE --experiment analysis -o {result.folder}`."
        )
    figure, axes = _panels(1, len(charts))
    for axis, chart in zip(axes[0], charts, strict=True):
        for i, line in enumerate(chart["series"]):
            axis.plot(line["x"], line["y"], label=_text(line["name"]), **_line(i))
        x = chart["series"][0]["x"]
        if min(x) > 0 and max(x) >= 100 * min(x):
            axis.set_xscale("log")
        axis.set(
            xlabel=_text(chart["x_label"]),
            ylabel=_text(chart["y_label"]),
            title=_text(chart["title"]),
        )
        axis.grid(linewidth=0.4, color="0.88")
    _legend(figure, axes[0][0])
    return figure


KINDS: Final[dict[str, Callable[[BenchResult, list[str]], Any]]] = {
    "histogram": _histograms,
    "roc": _roc,
    "pr": _precision_recall,
    "heatmap": _heat_map,
    "curves": _curves,
}
