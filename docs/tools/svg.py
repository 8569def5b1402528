"""Small drawings as SVG: one that is legible on light and on dark paper, and of a few kilobytes.

Colours have names: `ink` for what is read, `soft` for what stands back, `line` for axes, `known`,
`strange` and `third` for data. Outside the site a drawing brings both of its palettes; inside it
takes those of the page (docs/assets/typica.css).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

LIGHT = {
    "ink": "#1b2733",
    "soft": "#5f6c79",
    "line": "#ccd4dc",
    "known": "#0b6fb8",
    "strange": "#bd4a08",
    "third": "#0a7d56",
    "paper": "#ffffff",
}
DARK = {
    "ink": "#e8edf2",
    "soft": "#a3afbb",
    "line": "#44515e",
    "known": "#63b5f2",
    "strange": "#ff9a57",
    "third": "#56cf9f",
    "paper": "#1b2530",
}
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


class Drawing:
    """A sheet of a given size to draw on; x goes right and y goes down."""

    def __init__(self, width: float, height: float, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self.parts: list[str] = []

    def add(self, tag: str, text: str = "", **attributes: Any) -> None:
        """Add an element; `fill_opacity` is the attribute fill-opacity."""
        written = "".join(
            f' {name.replace("_", "-")}="{_text(value)}"' for name, value in attributes.items()
        )
        self.parts.append(f"<{tag}{written}/>" if not text else f"<{tag}{written}>{text}</{tag}>")

    def label(self, x: float, y: float, text: str, colour: str = "ink", **more: Any) -> None:
        """Write a line of text."""
        more = {"font_size": 11, **more}
        self.add("text", escape(text), x=x, y=y, fill=paint(colour), **more)

    def path(self, lines: Iterable[ArrayLike], *, closed: bool = False, **style: Any) -> None:
        """Draw lines through points (n, 2); those of less than two points are left out."""
        drawn = [_path(np.asarray(points), closed) for points in lines]
        if "".join(drawn):
            self.add("path", d="".join(drawn), **style)

    def text(self) -> str:
        """Return the file."""
        box = f'viewBox="0 0 {_text(self.width)} {_text(self.height)}"'
        size = f'width="{_text(self.width)}" height="{_text(self.height)}"'
        begin = f'<svg xmlns="http://www.w3.org/2000/svg" {box} {size} font-family="{FONT}">'
        head = [begin, f"<title>{escape(self.title)}</title>", f"<style>{_style()}</style>"]
        return "\n".join([*head, *self.parts, "</svg>"]) + "\n"

    def save(self, path: Path) -> None:
        """Write the file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.text(), encoding="utf-8")


class Plot:
    """Axes on a drawing: from numbers to places."""

    def __init__(
        self,
        drawing: Drawing,
        box: tuple[float, float, float, float],
        x: tuple[float, float],
        y: tuple[float, float],
    ) -> None:
        self.drawing, self.box, self.x_range, self.y_range = drawing, box, x, y

    def at(self, x: ArrayLike, y: ArrayLike) -> NDArray[np.float64]:
        """Return the places (n, 2) of points."""
        left, top, width, height = self.box
        across = (np.asarray(x, dtype=float) - self.x_range[0]) / np.ptp(self.x_range)
        up = (np.asarray(y, dtype=float) - self.y_range[0]) / np.ptp(self.y_range)
        return np.stack(np.broadcast_arrays(left + width * across, top + height * (1 - up)), -1)

    def line(self, x: ArrayLike, y: ArrayLike, **style: Any) -> None:
        """Draw a line through points."""
        style = {"stroke": paint("ink"), "fill": "none", "stroke_width": 1.5, **style}
        self.drawing.path([simplified(self.at(x, y))], **style)

    def x_ticks(self, ticks: dict[float, str], title: str = "", *, grid: bool = False) -> None:
        """Draw the lower axis: ticks by their place, and what is measured."""
        left, top, width, height = self.box
        bottom = top + height
        self.drawing.path(
            [[(left, bottom), (left + width, bottom)]], stroke=paint("line"), stroke_width=1
        )
        for tick, text in ticks.items():
            (x, _) = self.at(tick, self.y_range[0])
            if grid:
                self.drawing.path([[(x, top), (x, bottom)]], stroke=paint("line"), stroke_width=0.5)
            self.drawing.label(x, bottom + 15, text, "soft", text_anchor="middle")
        if title:
            self.drawing.label(left + width / 2, bottom + 32, title, "soft", text_anchor="middle")

    def y_ticks(self, ticks: dict[float, str], title: str = "") -> None:
        """Draw the left axis as lines across the plot, with what is measured above them."""
        left, top, width, _ = self.box
        for tick, text in ticks.items():
            (_, y) = self.at(self.x_range[0], tick)
            self.drawing.path(
                [[(left, y), (left + width, y)]], stroke=paint("line"), stroke_width=0.5
            )
            self.drawing.label(left - 6, y + 4, text, "soft", text_anchor="end")
        if title:
            self.drawing.label(left - 30, top - 12, title, "soft")


def paint(name: str) -> str:
    """Return a colour by its name, for an attribute."""
    return f"var(--figure-{name})"


def simplified(points: ArrayLike, tolerance: float = 0.12) -> NDArray[np.float64]:
    """Return a line through fewer points, none of the others further from it than the tolerance.

    >>> simplified([(0, 0), (1, 0.01), (2, 0), (2, 2)]).tolist()
    [[0.0, 0.0], [2.0, 0.0], [2.0, 2.0]]
    """
    points = np.asarray(points, dtype=float)
    kept = np.zeros(len(points), dtype=bool)
    if len(points):
        kept[[0, -1]] = True
    spans = [(0, len(points) - 1)]
    while spans:
        first, last = spans.pop()
        if last - first < 2:
            continue
        away = _distances(points[first + 1 : last], points[first], points[last])
        furthest = int(away.argmax())
        if away[furthest] > tolerance:
            middle = first + 1 + furthest
            kept[middle] = True
            spans += [(first, middle), (middle, last)]
    return points[kept]


def _distances(
    points: NDArray[np.float64], start: NDArray[np.float64], end: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return how far points are from the straight line between two others."""
    along = end - start
    length = np.hypot(*along)
    if length == 0:
        return np.hypot(*(points - start).T)
    x, y = (points - start).T
    return np.abs(along[0] * y - along[1] * x) / length


def _path(points: NDArray[np.float64], closed: bool) -> str:
    """Return the steps of a path, in tenths and relative to each other, which is short."""
    if len(points) < 2:
        return ""
    tenths = np.rint(points * 10).astype(int)
    steps = np.diff(tenths, axis=0)
    steps = steps[steps.any(axis=1)]
    if not len(steps):
        return ""
    start = _pair(tenths[0])
    return f"M{start}l{' '.join(_pair(step) for step in steps)}{'z' if closed else ''}"


def _pair(tenths: Sequence[int] | NDArray[np.int_]) -> str:
    x, y = (_text(value / 10) for value in tenths)
    return f"{x}{y}" if y.startswith("-") else f"{x} {y}"


def _text(value: Any) -> str:
    """Return a number in as few characters as it takes; anything else as it is."""
    if isinstance(value, int | float | np.number):
        short = f"{value:.2f}".rstrip("0").rstrip(".") if value % 1 else f"{value:.0f}"
        return "0" if short == "-0" else short
    return escape(str(value))


def _style() -> str:
    light = ";".join(f"--figure-{name}:{value}" for name, value in LIGHT.items())
    dark = ";".join(f"--figure-{name}:{value}" for name, value in DARK.items())
    return f":root{{{light}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}"
