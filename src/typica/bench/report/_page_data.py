"""The numbers that the page's script reads: sorted scores, what they measure, and calibration."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
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
from typica.calibration import Levels, about_ties, guaranteed_rank, threshold_at
from typica.metrics import Result, evaluate, rate_interval

EXACT_UP_TO = 1 << 15  # scores of a set; of a larger one this many order statistics are kept
TITLES = {  # of the charts of an analysis
    "norm": "Feature norm",
    "cosine": "Cosine to the nearest class mean",
    "logit": "Largest logit",
    "variation": "Step on the weights: how far predictions move",
    "uncertainty": "Step on the weights: how much certainty falls",
}
MEASURED = ("threshold", "fpr", "auroc", "aupr_in", "aupr_out")  # of a set, on the page
TPRS = tuple(Fraction(percent, 100) for percent in range(80, 100))


@dataclass(frozen=True)
class PackedScores:
    """The scores of a set as the page holds them: how many there are, and the sorted ones."""

    n: int
    scores: str

    @property
    def thinned(self) -> bool:
        """Whether some of the scores stand for all."""
        return self.n > EXACT_UP_TO


@dataclass(frozen=True)
class MeasuredSet:
    """An OOD set: its scores, and what they measure."""

    name: str
    scores: PackedScores
    result: Result

    def to_dict(self) -> dict[str, Any]:
        """Give plain JSON types."""
        measured = self.result.to_dict()
        shown = {key: measured[key] for key in MEASURED}
        return {"name": self.name, **asdict(self.scores), **shown}


@dataclass(frozen=True)
class CalibrationPoint:
    """A threshold that should keep `tpr`, how many it keeps, and the interval of their share."""

    tpr: float
    threshold: float
    kept: int
    low: float
    high: float

    def to_dict(self) -> dict[str, Any]:
        """Give plain JSON types."""
        return asdict(self) | {"threshold": json_number(self.threshold)}


@dataclass(frozen=True)
class CalibrationChart:
    """What thresholds keep.

    split: whether both parts are halves of the test set. ties: what to say of the threshold at the
    default alpha, if scores that are equal make it keep too much.
    """

    split: bool
    n_calibration: int
    n_test: int
    points: tuple[CalibrationPoint, ...]
    ties: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Give plain JSON types."""
        return vars(self) | {"points": [point.to_dict() for point in self.points]}


@dataclass(frozen=True)
class MethodData:
    """The scores of a method. float32: whether they are held as such, or as float64."""

    name: str
    float32: bool
    test: PackedScores
    sets: tuple[MeasuredSet, ...]
    calibration: CalibrationChart

    def to_dict(self) -> dict[str, Any]:
        """Give plain JSON types."""
        return {
            "name": self.name,
            "float32": self.float32,
            "test": asdict(self.test),
            "sets": [found.to_dict() for found in self.sets],
            "calibration": self.calibration.to_dict(),
        }


@dataclass(frozen=True)
class PageData:
    """What the page's script reads.

    Attributes
    ----------
    tpr, fpr_name
        The share of ID that thresholds keep, and what FPR is called at it.
    methods, start
        The methods, best first, and the place of the one to start with.
    histograms, curves, depths
        The charts of the analysis and of the layers.
    images
        Those of the gallery, as addresses that hold them.
    """

    tpr: float
    fpr_name: str
    methods: tuple[MethodData, ...]
    histograms: tuple[Chart, ...]
    curves: tuple[Chart, ...]
    depths: tuple[Chart, ...]
    start: int
    images: Sequence[str]

    def to_dict(self) -> dict[str, Any]:
        """Give plain JSON types."""
        return {
            "tpr": self.tpr,
            "fpr_name": self.fpr_name,
            "methods": [method.to_dict() for method in self.methods],
            "histograms": [chart.to_dict() for chart in self.histograms],
            "curves": [chart.to_dict() for chart in self.curves],
            "depths": [chart.to_dict() for chart in self.depths],
            "start": self.start,
            "images": list(self.images),
        }


def page_data(result: ResultFolder, take: str, images: Sequence[str]) -> PageData:
    """Return what the page's script needs.

    Parameters
    ----------
    result
        The result that the page shows.
    take
        The method to start with; the first, if that has no scores.
    images
        Those of the gallery.
    """
    record = result.record
    names = list(result.scores)
    return PageData(
        tpr=record.protocol.tpr,
        fpr_name=record.fpr_name,
        methods=tuple(_method(name, result.scores[name], record.protocol) for name in names),
        histograms=_titled(result.histograms),
        curves=_titled(result.curves),
        depths=tuple(depth_charts(result.experiments.get("layers"))),
        start=names.index(take) if take in names else 0,
        images=images,
    )


def script_json(document: Any) -> Markup:
    """Return JSON that is safe inside a script element: no text in it can end the element.

    >>> print(script_json("</script>"))
    "\\u003c/script\\u003e"
    """
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    for mark in "&<>":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return Markup(text)


def calibration(scores: Scores) -> CalibrationChart:
    """Set the threshold for each share in `TPRS` on held-out scores, and count what `test` keeps.

    Without held-out scores the even rows of `test` set the threshold and the odd rows are counted.
    Each point has the 95 % interval of Clopper and Pearson for the share that the threshold keeps.

    >>> point = calibration(Scores(np.arange(100.0), {}, np.arange(0, 100, 0.5))).points[15]
    >>> point.tpr, point.threshold, point.kept
    (0.95, 4.5, 95)
    """
    held_out, test = scores.calibration, scores.test
    split = held_out is None
    if split:
        held_out, test = (test[::2], test[1::2]) if len(test) > 1 else (test, test)
    ordered = np.sort(held_out)
    points = tuple(_point(tpr, ordered, test) for tpr in TPRS)
    levels = Levels.of()
    ties = about_ties(levels, guaranteed_rank(len(ordered), levels.alpha), ordered)
    return CalibrationChart(split, len(ordered), len(test), points, ties)


def _point(tpr: Fraction, ordered: AnyArray, test: AnyArray) -> CalibrationPoint:
    k = guaranteed_rank(len(ordered), 1 - tpr)
    threshold = threshold_at(k, ordered)
    kept = int(np.count_nonzero(test.astype(np.float64) >= threshold))
    low, high = rate_interval(kept, len(test))
    return CalibrationPoint(float(tpr), threshold, kept, low, high)


def _method(name: str, scores: Scores, protocol: Stated) -> MethodData:
    single = all(_fits_page_as_float32(array) for array in (scores.test, *scores.ood.values()))
    tpr, convention = protocol.tpr, protocol.convention
    sets = []
    for ood, array in scores.ood.items():
        measured = evaluate(scores.test, array, tpr, convention=convention)
        sets.append(MeasuredSet(ood, _packed(array, single), measured))
    test = _packed(scores.test, single)
    return MethodData(name, single, test, tuple(sets), calibration(scores))


def _fits_page_as_float32(array: AnyArray) -> bool:
    """Tell whether the report's page can hold scores as float32, every one exactly."""
    if array.dtype.char in "ef":
        return True
    with np.errstate(over="ignore"):
        rounded = array.astype(np.float32).astype(np.float64)
    return bool(np.array_equal(rounded, array.astype(np.float64)))


def _packed(array: AnyArray, single: bool) -> PackedScores:
    ordered = np.sort(array)
    n = len(ordered)
    if n > EXACT_UP_TO:
        ordered = ordered[np.linspace(0, n - 1, EXACT_UP_TO).round().astype(np.int64)]
    kept = np.ascontiguousarray(ordered, dtype="<f4" if single else "<f8")
    return PackedScores(n, base64.b64encode(kept.tobytes()).decode("ascii"))


def _titled(charts: Iterable[Chart]) -> tuple[Chart, ...]:
    return tuple(replace(chart, title=TITLES.get(chart.title, chart.title)) for chart in charts)
