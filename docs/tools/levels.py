"""The level sets of a score on three classes in two dimensions."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import contourpy
import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from svg import Drawing, Plot, paint, simplified

from typica import Head

CENTRES = np.array([(1.2, 4.3), (4.6, 4.2), (4.2, 1.0)])
SPREAD = 0.5
TRAIN, HELD_OUT = 100, 2000  # rows of each class
FIELD = (-2.5, 7.5)
GRID = 121
SIZE = 260
KEPT = (0.99, 0.95, 0.80, 0.50)  # shares of known inputs inside the lines
BOLD = 0.95
FURTHER = (12.0, 5.0, 2.0)  # fainter sets outside, in units of what lies between 99 and 50 %


class Blobs:
    """Three classes, a head that tells them apart, and a field of points around them."""

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.labels = np.repeat(np.arange(3), TRAIN)
        self.train = self._rows(rng, TRAIN)
        self.held_out = self._rows(rng, HELD_OUT)
        classifier = LogisticRegression(C=0.3).fit(self.train, self.labels)
        self.head = Head(classifier.coef_, classifier.intercept_)
        self.axis = np.linspace(*FIELD, GRID)
        across, up = np.meshgrid(self.axis, self.axis)
        self.field = np.stack([across.ravel(), up.ravel()], axis=1)

    @staticmethod
    def _rows(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        centres = np.repeat(CENTRES, count, axis=0)
        # Features as after a ReLU: none below zero.
        return np.maximum(centres + SPREAD * rng.normal(size=centres.shape), 0.0)


def draw(name: str, estimator: Any, blobs: Blobs) -> Drawing:
    """Fit an estimator on the blobs and draw where its score is high."""
    estimator.fit(blobs.train, blobs.labels)
    known = estimator.score_samples(blobs.held_out)
    scores = estimator.score_samples(blobs.field).reshape(GRID, GRID)
    drawing = Drawing(SIZE, SIZE, f"Level sets of {name}")
    plot = Plot(drawing, (4, 4, SIZE - 8, SIZE - 8), FIELD, FIELD)
    _axes(plot)
    surface = contourpy.contour_generator(blobs.axis, blobs.axis, _finite(scores))
    levels = {kept: float(np.quantile(known, 1 - kept)) for kept in KEPT}
    unit = levels[KEPT[-1]] - levels[KEPT[0]]
    for steps in FURTHER:
        _fill(plot, surface, levels[KEPT[0]] - steps * unit, 0.05)
    for level in levels.values():
        _fill(plot, surface, level, 0.16)
    _points(plot, blobs)
    for kept, level in levels.items():
        _outline(plot, surface, level, bold=kept == BOLD)
    return drawing


def _finite(scores: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return scores with the lowest finite one in place of what is not finite."""
    finite = np.isfinite(scores)
    return np.where(finite, scores, scores[finite].min()).astype(np.float64)


def _axes(plot: Plot) -> None:
    style = {"stroke": paint("line"), "stroke_width": 1}
    plot.line([0, 0], FIELD, **style)
    plot.line(FIELD, [0, 0], **style)
    left, top, width, height = plot.box
    plot.drawing.add("rect", x=left, y=top, width=width, height=height, rx=3, fill="none", **style)


def _fill(plot: Plot, surface: Any, level: float, opacity: float) -> None:
    """Tint what scores at least a level; tints lie over each other."""
    polygons = []
    for points, offsets in zip(*surface.filled(level, np.inf), strict=True):
        for start, end in pairwise(offsets):
            polygons.append(simplified(plot.at(*points[start:end].T)))
    style = {"fill": paint("known"), "fill_opacity": opacity, "fill_rule": "evenodd"}
    plot.drawing.path(polygons, closed=True, **style)


def _outline(plot: Plot, surface: Any, level: float, *, bold: bool) -> None:
    lines = [simplified(plot.at(*points.T)) for points in surface.lines(level)]
    colour, width = ("strange", 2.2) if bold else ("known", 0.7)
    plot.drawing.path(lines, fill="none", stroke=paint(colour), stroke_width=width)


def _points(plot: Plot, blobs: Blobs) -> None:
    """Draw a part of the training rows, as one path of dots."""
    dots = plot.at(*blobs.train[::4].T)
    steps = "".join(f"M{x:.0f} {y:.0f}h0" for x, y in dots)
    style = {"stroke": paint("ink"), "stroke_width": 2.4, "stroke_linecap": "round"}
    plot.drawing.add("path", d=steps, fill="none", stroke_opacity=0.75, **style)
