"""The numbers that the page's script reads: sorted scores, what they measure, and calibration."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from markupsafe import Markup

from typica.arrays import AnyArray
from typica.as_json import json_number
from typica.bench._chart_data import Chart, depth_charts
from typica.bench._open_result import ResultFolder
from typica.bench._record import Stated
from typica.bench._runs import Scores
from typica.calibration import guaranteed_rank, threshold_at
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


def payload(result: ResultFolder) -> dict[str, Any]:
    """Return what the page's script needs, as JSON values: methods, best first, and charts."""
    record = result.record
    methods = [_method(name, scores, record.protocol) for name, scores in result.scores.items()]
    return {
        "tpr": record.protocol.tpr,
        "fpr_name": record.fpr_name,
        "methods": methods,
        "histograms": _titled(result.histograms),
        "curves": _titled(result.curves),
        "depths": [chart.to_dict() for chart in depth_charts(result.experiments.get("layers"))],
    }


def script_json(document: Any) -> Markup:
    """Return JSON that is safe inside a script element: no text in it can end the element.

    >>> print(script_json("</script>"))
    "\\u003c/script\\u003e"
    """
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    for mark in "&<>":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return Markup(text)


def calibration(scores: Scores) -> dict[str, Any]:
    """Set the threshold for each share in `TPRS` on held-out scores, and count what `test` keeps.

    Without held-out scores the even rows of `test` set the threshold and the odd rows are counted.
    Each point has the 95 % interval of Clopper and Pearson for the share that the threshold keeps.

    >>> points = calibration(Scores(np.arange(100.0), {}, np.arange(0, 100, 0.5)))["points"]
    >>> points[15]["tpr"], points[15]["threshold"], points[15]["kept"]
    (0.95, 4.5, 95)
    """
    held_out, test = scores.calibration, scores.test
    split = held_out is None
    if split:
        held_out, test = (test[::2], test[1::2]) if len(test) > 1 else (test, test)
    ordered = np.sort(held_out)
    points = [_point(tpr, ordered, test) for tpr in TPRS]
    return {"split": split, "n_calibration": len(ordered), "n_test": len(test), "points": points}


def _point(tpr: Fraction, ordered: AnyArray, test: AnyArray) -> dict[str, Any]:
    k = guaranteed_rank(len(ordered), 1 - tpr)
    threshold = threshold_at(k, ordered)
    kept = int(np.count_nonzero(test.astype(np.float64) >= threshold))
    low, high = rate_interval(kept, len(test))
    shown = json_number(threshold)
    return {"tpr": float(tpr), "threshold": shown, "kept": kept, "low": low, "high": high}


def _method(name: str, scores: Scores, protocol: Stated) -> dict[str, Any]:
    single = all(_fits_page_as_float32(array) for array in (scores.test, *scores.ood.values()))
    sets = []
    for ood, array in scores.ood.items():
        measured = _measured(scores.test, array, protocol)
        sets.append({"name": ood, **_packed(array, single), **measured})
    return {
        "name": name,
        "float32": single,
        "test": _packed(scores.test, single),
        "sets": sets,
        "calibration": calibration(scores),
    }


def _measured(test: AnyArray, ood: AnyArray, protocol: Stated) -> dict[str, Any]:
    result = evaluate(test, ood, protocol.tpr, convention=protocol.convention).to_dict()
    return {key: result[key] for key in ("threshold", "fpr", "auroc", "aupr_in", "aupr_out")}


def _fits_page_as_float32(array: AnyArray) -> bool:
    """Tell whether the report's page can hold scores as float32, every one exactly."""
    if array.dtype.char in "ef":
        return True
    with np.errstate(over="ignore"):
        rounded = array.astype(np.float32).astype(np.float64)
    return bool(np.array_equal(rounded, array.astype(np.float64)))


def _packed(array: AnyArray, single: bool) -> dict[str, Any]:
    ordered = np.sort(array)
    n = len(ordered)
    if n > EXACT_UP_TO:
        ordered = ordered[np.linspace(0, n - 1, EXACT_UP_TO).round().astype(np.int64)]
    kept = np.ascontiguousarray(ordered, dtype="<f4" if single else "<f8")
    return {"n": n, "scores": base64.b64encode(kept.tobytes()).decode("ascii")}


def _titled(charts: Iterable[Chart]) -> list[dict[str, Any]]:
    named = [replace(chart, title=TITLES.get(chart.title, chart.title)) for chart in charts]
    return [chart.to_dict() for chart in named]
