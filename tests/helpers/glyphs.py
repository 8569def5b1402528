"""Digits and letters as strokes of a pen: points (x, y) in a box from 0 to 1, y downwards."""

from __future__ import annotations

import itertools

import numpy as np

Stroke = list[tuple[float, float]]


def arc(
    middle: tuple[float, float], radii: tuple[float, float], start: float, stop: float
) -> Stroke:
    """Return points on an ellipse from one angle to another, in degrees."""
    angles = np.radians(np.linspace(start, stop, 16))
    xs = middle[0] + radii[0] * np.cos(angles)
    ys = middle[1] + radii[1] * np.sin(angles)
    return list(zip(xs.tolist(), ys.tolist(), strict=True))


def _lines(*points: tuple[float, float]) -> Stroke:
    """Return points on straight lines, close to one another."""
    found = []
    for (x, y), (to_x, to_y) in itertools.pairwise(points):
        steps = np.linspace(0, 1, 6)[:-1].tolist()
        found += [(x + step * (to_x - x), y + step * (to_y - y)) for step in steps]
    return [*found, points[-1]]


GLYPHS: dict[str, list[Stroke]] = {
    "0": [arc((0.5, 0.5), (0.3, 0.5), -90, 270)],
    "1": [_lines((0.3, 0.3), (0.6, 0), (0.6, 1))],
    "2": [[*arc((0.5, 0.27), (0.3, 0.27), 180, 370), (0.2, 1), (0.85, 1)]],
    "3": [[*arc((0.45, 0.25), (0.3, 0.25), 200, 450), *arc((0.45, 0.75), (0.33, 0.25), -90, 160)]],
    "4": [_lines((0.55, 0), (0.15, 0.65), (0.9, 0.65)), _lines((0.65, 0.35), (0.65, 1))],
    "5": [
        [*_lines((0.8, 0), (0.3, 0), (0.25, 0.45)), *arc((0.48, 0.7), (0.3, 0.3), -140, 140)],
    ],
    "A": [_lines((0.1, 1), (0.5, 0), (0.9, 1)), _lines((0.25, 0.62), (0.75, 0.62))],
    "H": [
        _lines((0.15, 0), (0.15, 1)),
        _lines((0.85, 0), (0.85, 1)),
        _lines((0.15, 0.5), (0.85, 0.5)),
    ],
    "K": [_lines((0.2, 0), (0.2, 1)), _lines((0.8, 0), (0.2, 0.55), (0.85, 1))],
    "M": [_lines((0.05, 1), (0.1, 0), (0.5, 0.7), (0.9, 0), (0.95, 1))],
    "N": [_lines((0.15, 1), (0.15, 0), (0.85, 1), (0.85, 0))],
    "V": [_lines((0.1, 0), (0.5, 1), (0.9, 0))],
    "W": [_lines((0, 0), (0.25, 1), (0.5, 0.3), (0.75, 1), (1, 0))],
}
