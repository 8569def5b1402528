"""The numbers that the page's script reads: sorted scores in base64, what they measure, and calibration."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica.bench.report.experiments import depth_charts
from typica.bench.report.folder import BenchResult, Scores, number
from typica.calibration import Levels, guaranteed_rank
from typica.exact import json_number
from typica.metrics import evaluate, rate_interval

EXACT_UP_TO = 1 << 15  # scores of a set; of a larger one this many order statistics are kept
TITLES = {  # of the charts of an analysis
    "norm": "Feature norm",
    "cosine": "Cosine to the nearest class mean",
    "logit": "Largest logit",
    "variation": "Step on the weights: how far predictions move",
    "uncertainty": "Step on the weights: how much certainty falls",
}
TPRS = tuple(Fraction(percent, 100) for percent in range(80, 100))


def payload(result: BenchResult) -> dict[str, Any]:
    """Return what the page's script needs, as JSON values: methods, the best first, and the analysis."""
    found = {
        name: scores
        for name in result.methods
        if (scores := result.scores(name)) is not None and scores.ood
    }
    return {
        "tpr": result.tpr,
        "fpr_name": result.fpr_name,
        "methods": [_method(name, scores, result) for name, scores in found.items()],
        "histograms": _titled(histograms(result.analysis.get("histograms"))),
        "curves": _titled(curves(result.analysis.get("curves"))),
        "depths": depth_charts(result),
    }


def script_json(document: Any) -> str:
    """Return JSON that is safe inside a script element: no text in it can end the element or open a comment.

    >>> script_json("</script>")
    '"\\\\u003c/script\\\\u003e"'
    """
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def calibration(scores: Scores) -> dict[str, Any]:
    """Set the threshold for each share in `TPRS` on held-out scores, and count what it keeps of `test`.

    Without held-out scores the even rows of `test` set the threshold and the odd rows are counted.
    Each point has the 95 % interval of Clopper and Pearson for the share that the threshold keeps.

    >>> points = calibration(Scores(np.arange(100.0), np.arange(0, 100, 0.5), {}))["points"]
    >>> points[15]["tpr"], points[15]["threshold"], points[15]["kept"]
    (0.95, 4.5, 95)
    """
    held_out, test = scores.calibration, scores.test
    split = held_out is None
    if held_out is None:
        held_out, test = (test[::2], test[1::2]) if len(test) > 1 else (test, test)
    ordered, n, points = np.sort(held_out), len(test), []
    for tpr in TPRS:
        k = guaranteed_rank(len(ordered), Levels.of(tpr=float(tpr)).alpha)
        threshold = float(ordered[k - 1]) if k else -math.inf
        kept = int(np.count_nonzero(test.astype(np.float64) >= threshold))
        low, high = rate_interval(kept, n)
        point = {
            "tpr": float(tpr),
            "threshold": json_number(threshold),
            "kept": kept,
            "low": low,
            "high": high,
        }
        points.append(point)
    return {"split": split, "n_calibration": len(ordered), "n_test": n, "points": points}


def _method(name: str, scores: Scores, result: BenchResult) -> dict[str, Any]:
    arrays = [scores.test, *scores.ood.values()]
    single = all(_fits_float32(array) for array in arrays)
    return {
        "name": name,
        "float32": single,
        "test": _packed(scores.test, single),
        "sets": [
            {"name": ood, **_packed(array, single), **_measured(scores.test, array, result)}
            for ood, array in scores.ood.items()
        ],
        "calibration": calibration(scores),
    }


def _measured(test: NDArray[Any], ood: NDArray[Any], result: BenchResult) -> dict[str, Any]:
    measured = evaluate(test, ood, result.tpr, convention=result.convention).to_dict()
    return {key: measured[key] for key in ("threshold", "fpr", "auroc", "aupr_in", "aupr_out")}


def _fits_float32(array: NDArray[Any]) -> bool:
    """Tell whether float32 holds every score exactly."""
    if array.dtype.char in "ef":
        return True
    with np.errstate(over="ignore"):
        return bool(
            np.array_equal(array.astype(np.float32).astype(np.float64), array.astype(np.float64))
        )


def _packed(array: NDArray[Any], single: bool) -> dict[str, Any]:
    ordered = np.sort(array)
    n = len(ordered)
    if n > EXACT_UP_TO:
        ordered = ordered[np.linspace(0, n - 1, EXACT_UP_TO).round().astype(np.int64)]
    kept = np.ascontiguousarray(ordered, dtype="<f4" if single else "<f8")
    return {"n": n, "scores": base64.b64encode(kept.tobytes()).decode("ascii")}


def histograms(found: Any) -> list[dict[str, Any]]:
    """Return the histograms of an analysis, {title: {set: {"edges", "counts"}}} or with edges in common, as shares.

    >>> histograms({"norm": {"edges": [0, 1, 2], "counts": {"test": [1, 3]}}})
    [{'title': 'norm', 'series': [{'name': 'test', 'x': [0.0, 1.0, 2.0], 'y': [0.25, 0.75]}]}]
    """
    charts = []
    for title, chart in found.items() if isinstance(found, Mapping) else ():
        if not isinstance(chart, Mapping):
            continue
        parts = chart
        if isinstance(chart.get("counts"), Mapping):
            parts = {
                name: {"edges": chart.get("edges"), "counts": counts}
                for name, counts in chart["counts"].items()
            }
        series = []
        for name, part in parts.items():
            if not isinstance(part, Mapping):
                continue
            edges, counts = _numbers(part.get("edges")), _numbers(part.get("counts"))
            if edges and counts and len(edges) == len(counts) + 1:
                total = math.fsum(counts) or 1.0
                series.append({"name": name, "x": edges, "y": [count / total for count in counts]})
        if series:
            charts.append({"title": title, "series": series})
    return charts


def curves(found: Any) -> list[dict[str, Any]]:
    """Return the curves of an analysis: {title: {"x": [], "y" or "series": {name: []}, "x_label", "y_label"}}.

    >>> curves({"moved": {"x": [1, 2], "y": {"test": [3, 4]}}})[0]["series"]
    [{'name': 'test', 'x': [1.0, 2.0], 'y': [3.0, 4.0]}]
    """
    charts = []
    for title, chart in found.items() if isinstance(found, Mapping) else ():
        if not isinstance(chart, Mapping):
            continue
        x, lines = _numbers(chart.get("x")), chart.get("series", chart.get("y"))
        lines = lines if isinstance(lines, Mapping) else {title: lines}
        series = [
            {"name": name, "x": x, "y": y}
            for name, line in lines.items()
            if (y := _numbers(line)) and x and len(y) == len(x)
        ]
        if series:
            labels = {key: str(chart.get(key, "")) for key in ("x_label", "y_label")}
            charts.append({"title": title, "series": series, **labels})
    return charts


def _titled(charts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [chart | {"title": TITLES.get(chart["title"], chart["title"])} for chart in charts]


def _numbers(values: Any) -> list[float] | None:
    """Return a list of finite numbers, or None for anything else."""
    if not isinstance(values, list):
        return None
    found = [number(value) for value in values]
    return None if None in found else [value for value in found if value is not None]
