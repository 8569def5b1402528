"""The figures that explain: what a threshold does, p-values, a stream, a rate, cost and quality."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta, gaussian_kde
from svg import Drawing, Plot, paint, simplified

import typica
from typica.bench import digits
from typica.calibration import guaranteed_rank

COSTS = Path(__file__).parents[1] / "measured_costs.csv"
ALPHA = 0.05
EXAMPLES = {"photos": [47, 137]}  # which images are shown, if not [12, 203]
SETS = {  # OOD sets of the suite digits, as a reader would call them
    "held-out-digits": "digits 7, 8, 9",
    "rotated": "digits on their side",
    "photos": "pieces of photos",
    "noise": "noise",
    "inverted": "light on dark",
}


@cache
def suite() -> Any:
    """Return the suite whose network knows the digits 0 to 6."""
    return digits.load()


@cache
def detector() -> Any:
    """Return Quorum, fitted and calibrated on the suite."""
    known = suite()
    head = typica.Head(known.head_weight, known.head_bias, known.classes)
    fitted = typica.Quorum(head).fit(known.train, known.train_labels)
    return fitted.calibrate(known.calibration, alpha=ALPHA)


def _strange() -> dict[str, NDArray[np.float32]]:
    return {text: suite().ood[name] for name, text in SETS.items()}


# What a threshold does


def threshold() -> Drawing:
    """Draw the scores of known inputs and of strangers, and what one threshold makes of them."""
    rows = {"digits 0 to 6": suite().test, **_strange()}
    width, step, top, left, right = 480, 44, 46, 168, 66
    drawing = Drawing(
        width, top + step * len(rows) + 40, "Scores, and what a threshold makes of them"
    )
    images = digits.images()
    shown = {"digits 0 to 6": images["test"][[12, 203]]}
    for name, text in SETS.items():
        shown[text] = images[name][EXAMPLES.get(name, [12, 203])]
    box = (left, top, width - left - right, step * len(rows))
    plot = Plot(drawing, box, (-26.0, 2.0), (0.0, 1.0))
    cut = float(detector().threshold_)
    drawing.label(width - right + 12, top - 9, "rejected", "soft")
    for i, (text, features) in enumerate(rows.items()):
        scores = detector().score_samples(features)
        bottom = top + step * (i + 1)
        colour = "strange" if i else "known"
        _thumbnails(drawing, shown[text], 2, bottom - 30, 27)
        drawing.label(66, bottom - 12, text, "ink")
        _ridge(plot, scores, bottom, step * 0.86, colour)
        share = f"{100 * np.mean(scores < cut):.0f} %"
        style = {"font_size": 15, "font_weight": 600}
        drawing.label(width - right + 12, bottom - 12, share, colour, **style)
    _cut(plot, cut)
    _below(plot)
    return drawing


def _cut(plot: Plot, cut: float) -> None:
    """Draw the threshold, and which side is which."""
    _, top, _, height = plot.box
    (x, _) = plot.at(cut, 0)
    plot.drawing.path(
        [[(x, top - 6), (x, top + height)]], stroke=paint("ink"), stroke_width=1.6, fill="none"
    )
    said = f"threshold, alpha = {100 * ALPHA:.0f} %"
    plot.drawing.label(x, top - 26, said, "ink", text_anchor="middle", font_weight=600)
    plot.drawing.label(x - 8, top - 9, "← atypical", "soft", text_anchor="end")
    plot.drawing.label(x + 8, top - 9, "typical →", "soft")


def _below(plot: Plot) -> None:
    left, top, width, height = plot.box
    plot.drawing.label(
        left + width / 2, top + height + 24, "score of Quorum", "soft", text_anchor="middle"
    )
    plot.drawing.label(left, top + height + 24, "strange", "soft")
    plot.drawing.label(left + width, top + height + 24, "familiar", "soft", text_anchor="end")


def _ridge(
    plot: Plot, scores: NDArray[np.floating], bottom: float, height: float, colour: str
) -> None:
    """Draw how scores are distributed, as a hill on a line."""
    x = np.linspace(*plot.x_range, 240)
    density = gaussian_kde(np.clip(scores, *plot.x_range), bw_method=0.18)(x)
    y = bottom - height * density / density.max()
    across = plot.at(x, np.zeros_like(x))[:, 0]
    hill = simplified(np.stack([across, y], axis=1))
    ground = [(across[-1], bottom), (across[0], bottom)]
    style = {"fill": paint(colour), "fill_opacity": 0.3, "stroke": "none"}
    plot.drawing.path([np.vstack([hill, ground])], closed=True, **style)
    plot.drawing.path([hill], fill="none", stroke=paint(colour), stroke_width=1.4)
    left, _, width, _ = plot.box
    base = [(left, bottom), (left + width, bottom)]
    plot.drawing.path([base], stroke=paint("line"), stroke_width=0.7)


def _thumbnails(
    drawing: Drawing, images: NDArray[np.float32], x: float, y: float, size: float
) -> None:
    """Draw images of 8x8 pixels side by side: four shades of ink, a path each."""
    for i, image in enumerate(images):
        left, pixel = x + i * (size + 3), size / 8
        shades = np.ceil(image / digits.INK * 4).astype(int)
        for shade in range(1, 5):
            steps = ""
            for row, start, end in _runs(shades == shade):
                place = f"M{left + start * pixel:.1f} {y + (row + 0.5) * pixel:.1f}"
                steps += f"{place}h{(end - start) * pixel:.1f}"
            if steps:
                style = {"stroke": paint("ink"), "stroke_width": f"{pixel:.1f}"}
                drawing.add("path", d=steps, fill="none", stroke_opacity=shade / 4, **style)


def _runs(mask: NDArray[np.bool_]) -> Iterator[tuple[int, int, int]]:
    """Yield each row's runs of pixels: the row, the first column, and the one after the last."""
    for row, pixels in enumerate(mask):
        edges = np.flatnonzero(np.diff(np.r_[0, pixels.astype(int), 0]))
        for start, end in edges.reshape(-1, 2):
            yield row, int(start), int(end)


# P-values


def p_values() -> Drawing:
    """Draw how many p-values are small, of known inputs and of strangers."""
    drawing = Drawing(560, 330, "P-values of known inputs and of strangers")
    plot = Plot(drawing, (58, 34, 340, 246), (0.0, 1.0), (0.0, 1.0))
    plot.y_ticks({0: "0", 0.5: "50 %", 1: "100 %"}, "share of inputs with a p-value this small")
    plot.x_ticks({0: "0", 0.25: "0.25", 0.5: "0.5", 0.75: "0.75", 1: "1"}, "p-value")
    plot.line([0, 1], [0, 1], stroke=paint("soft"), stroke_width=1, stroke_dasharray="3 4")
    corner = plot.at([0, ALPHA, ALPHA, 0], [0, 0, 1, 1])
    drawing.path([corner], closed=True, fill=paint("strange"), fill_opacity=0.13)
    names = {"digits 0 to 6": suite().test, **_strange()}
    ends = []
    for text, rows in names.items():
        known = text == "digits 0 to 6"
        colour = "known" if known else "strange"
        p = np.sort(detector().p_values(rows))
        share = np.arange(1, len(p) + 1) / len(p)
        width = 2.4 if known else 1.4
        plot.line(
            np.r_[0, np.repeat(p, 2), 1], np.r_[0, 0, np.repeat(share, 2)], stroke=paint(colour),
            stroke_width=width,
        )  # fmt: skip
        ends.append((text, colour, float(np.mean(p <= ALPHA))))
    _legend(drawing, 416, 52, ends)
    drawing.label(416, 216, "dashed: what is", "soft")
    drawing.label(416, 231, "promised, uniform", "soft")
    drawing.label(416, 252, f"tinted: p ≤ {ALPHA},", "soft")
    drawing.label(416, 267, "which is rejected", "soft")
    return drawing


def _legend(drawing: Drawing, x: float, y: float, ends: list[tuple[str, str, float]]) -> None:
    drawing.label(x, y - 18, f"rejected at {ALPHA:g}", "soft")
    for i, (text, colour, share) in enumerate(ends):
        drawing.label(x, y + 22 * i, f"{100 * share:.0f} %", colour, font_weight=600)
        drawing.label(x + 40, y + 22 * i, text, "ink")


# A stream


def monitor() -> Drawing:
    """Draw the wealth of a monitor over a stream that changes, and over one that does not."""
    change, seed = 150, 3
    rng = np.random.default_rng(seed)
    known = detector().score_samples(suite().test)[rng.permutation(len(suite().test))]
    strange = detector().score_samples(suite().ood["held-out-digits"])
    later = known[change:].copy()
    swapped = rng.random(len(later)) < 0.5
    later[swapped] = rng.choice(strange, swapped.sum(), replace=False)
    streams = {"strange": np.r_[known[:change], later], "known": known}
    drawing = Drawing(640, 300, "The wealth of a monitor over a stream")
    plot = Plot(drawing, (58, 30, 470, 220), (0, len(known)), (-2.0, 8.0))
    ticks = {e: f"10{_raised(e)}" for e in range(-2, 9, 2)}
    plot.y_ticks(ticks, "wealth")
    plot.x_ticks({0: "0", 100: "100", 200: "200", 300: "300"}, "inputs")
    alarm = None
    for colour, scores in streams.items():
        watcher = typica.Monitor(detector(), alpha=0.01)
        wealth = []
        for score in scores:
            watcher.update([score])
            wealth.append(np.log10(watcher.wealth))
        plot.line(np.arange(1, len(wealth) + 1), np.clip(wealth, -2, 8), stroke=paint(colour))
        alarm = watcher.alarm_at if colour == "strange" else alarm
    _stream_notes(plot, change, alarm)
    return drawing


def _stream_notes(plot: Plot, change: int, alarm: int | None) -> None:
    drawing = plot.drawing
    plot.line(plot.x_range, [2, 2], stroke=paint("ink"), stroke_width=1, stroke_dasharray="5 4")
    (x, y) = plot.at(plot.x_range[1], 2)
    drawing.label(x + 6, y + 4, "alarm at 100", "ink")
    drawing.label(x + 6, y + 18, "= 1 / alpha", "soft")
    plot.line([change, change], plot.y_range, stroke=paint("soft"), stroke_width=1)
    (x, _) = plot.at(change, 0)
    drawing.label(x - 6, plot.box[1] - 8, "only known digits", "known", text_anchor="end")
    drawing.label(x + 6, plot.box[1] - 8, "half are 7, 8 and 9", "strange")
    if alarm is not None:
        (x, y) = plot.at(alarm + 1, 2)
        drawing.add("circle", cx=x, cy=y, r=4, fill=paint("strange"))
        drawing.label(x + 9, y + 17, f"alarm, {alarm + 1 - change} inputs after the change", "ink")
    (x, y) = plot.at(plot.x_range[1], 0)
    drawing.label(x + 6, y, "a stream that", "known")
    drawing.label(x + 6, y + 14, "does not change", "known")


def _raised(exponent: int) -> str:
    return str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


# The rate that one calibration set gives


def rate() -> Drawing:
    """Draw which false-alarm rate a calibration set of some size gives."""
    drawing = Drawing(600, 290, "The false-alarm rate that one calibration set gives")
    plot = Plot(drawing, (40, 36, 430, 200), (0.0, 0.12), (0.0, 1.08))
    plot.x_ticks(
        {0.0: "0", 0.02: "2 %", 0.05: "5 %", 0.08: "8 %", 0.1: "10 %", 0.12: "12 %"},
        "false-alarm rate of new inputs",
    )
    x = np.linspace(1e-4, 0.12, 500)
    plot.line(
        [ALPHA, ALPHA], [0, 1.08], stroke=paint("ink"), stroke_width=1, stroke_dasharray="5 4"
    )
    styles = {100: ("known", "1 4"), 1000: ("known", "6 3"), 10000: ("known", "none")}
    for i, (n, (colour, dash)) in enumerate(styles.items()):
        k = guaranteed_rank(n, ALPHA, None)
        density = beta(k, n + 1 - k).pdf(x)
        dashes = {} if dash == "none" else {"stroke_dasharray": dash}
        plot.line(x, density / density.max(), stroke=paint(colour), stroke_width=1.8, **dashes)
        low, high = beta(k, n + 1 - k).ppf([0.025, 0.975])
        y = 62 + 46 * i
        drawing.path(
            [[(484, y - 4), (508, y - 4)]], stroke=paint(colour), stroke_width=1.8, **dashes
        )
        drawing.label(516, y, f"n = {n:,}", "ink", font_weight=600)
        drawing.label(516, y + 15, f"{100 * low:.1f} to {100 * high:.1f} %", "soft")
    (x, y) = plot.at(ALPHA, 1.08)
    drawing.label(x + 6, y + 2, f"alpha = {100 * ALPHA:g} %", "ink")
    return drawing


# Cost against quality


def pareto() -> Drawing:
    """Draw what a row costs against how well strangers are told, for every detector."""
    points = _costs()
    drawing = Drawing(720, 546, "Cost against quality of all detectors")
    lowest = 10 * (min(auroc for _, auroc in points.values()) // 10)
    plot = Plot(drawing, (58, 34, 640, 464), (-1.0, 3.0), (_height(lowest), _height(96.5)))
    levels = (70, 80, 85, 88, 90, 92, 94, 95, 96)
    ticks = {_height(level): f"{level}" for level in levels}
    plot.y_ticks(ticks, "mean AUROC in percent, over three image sets")
    times = {-1: "0.1", 0: "1", 1: "10", 2: "100", 3: "1,000"}
    plot.x_ticks(times, "microseconds a row, on two cores", grid=True)
    front = _front(points)
    _steps(plot, front, points)
    places = {
        name: tuple(plot.at(np.log10(cost), _height(auroc)))
        for name, (cost, auroc) in points.items()
    }
    _named_dots(drawing, places, points, front)
    return drawing


def _costs() -> dict[str, tuple[float, float]]:
    """Return microseconds a row and mean AUROC, by the name of the detector's class."""
    with COSTS.open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    points = {}
    for line in lines:
        name = typica.detector_class(line["method"]).__name__
        points[name] = (float(line["microseconds"]), float(line["auroc"]))
    return points


def _height(auroc: float) -> float:
    """Return a scale on which what is lacking to 100 % is halved from line to line."""
    return -float(np.log(100 - auroc))


def _front(points: Mapping[str, tuple[float, float]]) -> list[str]:
    """Return the detectors that are better than all cheaper ones, cheapest first."""
    found: list[str] = []
    for name in sorted(points, key=lambda name: (points[name][0], -points[name][1])):
        if not found or points[name][1] > points[found[-1]][1]:
            found.append(name)
    return found


def _steps(plot: Plot, front: list[str], points: Mapping[str, tuple[float, float]]) -> None:
    cost = np.log10([points[name][0] for name in front])
    height = np.array([_height(points[name][1]) for name in front])
    x = np.r_[np.repeat(cost, 2)[1:], plot.x_range[1]]
    y = np.repeat(height, 2)
    plot.line(x, y, stroke=paint("strange"), stroke_width=1.4, stroke_opacity=0.7)


Box = tuple[float, float, float, float]  # left, top, right, bottom


def _named_dots(
    drawing: Drawing,
    places: Mapping[str, tuple[float, float]],
    points: Mapping[str, tuple[float, float]],
    front: list[str],
) -> None:
    """Draw a dot for each detector, and its name where there is room, best ones first."""
    taken = [(x - 4, y - 4, x + 4, y + 4) for x, y in places.values()]
    taken.append((0, 0, drawing.width, 30))
    taken.append((drawing.width - 4, 0, 2 * drawing.width, drawing.height))
    ends = [*[places[name] for name in front[1:]], (drawing.width, 0.0)]
    for name, (end, height) in zip(front, ends, strict=True):  # the line of the best
        x, y = places[name]
        taken += [(x, y - 2, end, y + 2), (end - 2, height, end + 2, y)]
    others = sorted(set(places) - set(front), key=lambda name: -points[name][1])
    for name in [*front, *others]:
        best = name in front
        x, y = places[name]
        cost, auroc = points[name]
        said = f"<title>{name}: {cost:g} µs a row, AUROC {auroc:g}</title>"
        colour = "strange" if best else "known"
        drawing.add("circle", said, cx=x, cy=y, r=4.5 if best else 3.2, fill=paint(colour))
        _name(drawing, name, (x, y), taken, best=best)


def _name(
    drawing: Drawing, name: str, dot: tuple[float, float], taken: list[Box], *, best: bool
) -> None:
    """Write a name beside its dot where nothing is yet; a thin line leads to it from afar."""
    size, weight, letter = (12.5, 650, 0.64) if best else (11, 400, 0.6)
    box = _free_box(dot, (len(name) * size * letter, size), taken)
    taken.append(box)
    left, top, right, bottom = box
    x, y = dot
    nearest = min(max(x, left), right), min(max(y, top), bottom)
    if np.hypot(nearest[0] - x, nearest[1] - y) > 9:
        drawing.path([[dot, nearest]], stroke=paint("soft"), stroke_width=0.6)
    anchor, start = ("end", right) if right < x else ("start", left)
    style = {"font_size": size, "font_weight": weight, "text_anchor": anchor}
    drawing.label(start, bottom - 2, name, "ink" if best else "soft", **style)


def _free_box(point: tuple[float, float], size: tuple[float, float], taken: list[Box]) -> Box:
    """Return the place of a name: the least overlap, then near its dot, then right of it."""
    (x, y), (width, height) = point, size
    found: list[tuple[float, Box]] = []
    for distance in (6.0, 12.0, 20.0, 30.0, 42.0):
        for turn in np.linspace(0, 2 * np.pi, 24, endpoint=False):
            across, down = np.cos(turn), np.sin(turn)
            left = x + distance * across - width * (1 - across) / 2
            top = y + distance * down - height * (1 - down) / 2
            box = (left, top, left + width, top + height)
            overlap = sum(_overlap(box, other) for other in taken)
            found.append((overlap + 1e-3 * distance - 1e-4 * across, box))
    return min(found)[1]


def _overlap(a: Box, b: Box) -> float:
    across = min(a[2], b[2]) - max(a[0], b[0])
    down = min(a[3], b[3]) - max(a[1], b[1])
    return max(across, 0.0) * max(down, 0.0)


# How it works


def idea() -> Drawing:
    """Draw where a detector stands beside a network."""
    drawing = Drawing(720, 210, "Where a detector stands")
    _thumbnails(drawing, digits.images()["test"][[2]], 14, 34, 56)
    drawing.label(42, 112, "an image", "soft", text_anchor="middle")
    _box(drawing, (110, 30, 130, 64), "the network", "as it is")
    _box(drawing, (294, 30, 122, 64), "features", "a row of numbers")
    _box(drawing, (470, 30, 100, 64), "head", "the last layer")
    drawing.label(602, 58, "a class,", "ink", font_size=13)
    drawing.label(602, 76, "whatever it is", "soft")
    _box(drawing, (294, 136, 122, 58), "detector", "fitted once", colour="strange")
    _box(drawing, (470, 136, 100, 58), "threshold", "calibrated", colour="strange")
    drawing.label(602, 160, "typical, or not,", "strange", font_size=13, font_weight=600)
    drawing.label(602, 178, "with a p-value", "soft")
    for x, y, end in ((76, 62, 104), (242, 62, 288), (418, 62, 464), (572, 62, 596)):
        _arrow(drawing, [(x, y), (end, y)])
    for x, y, end in ((418, 165, 464), (572, 165, 596)):
        _arrow(drawing, [(x, y), (end, y)], "strange")
    _arrow(drawing, [(355, 96), (355, 130)], "strange")
    return drawing


Place = tuple[float, float, float, float]  # left, top, width, height


def _box(drawing: Drawing, place: Place, name: str, note: str, colour: str = "known") -> None:
    x, y, width, height = place
    style = {"fill": paint(colour), "fill_opacity": 0.12, "stroke": paint(colour)}
    drawing.add("rect", x=x, y=y, width=width, height=height, rx=7, stroke_width=1.3, **style)
    middle = x + width / 2
    drawing.label(middle, y + height / 2 - 3, name, "ink", text_anchor="middle", font_size=14)
    drawing.label(middle, y + height / 2 + 15, note, "soft", text_anchor="middle")


def _arrow(drawing: Drawing, points: list[tuple[float, float]], colour: str = "soft") -> None:
    (start, _), (x, y) = points
    tip = [(x - 6, y - 4), (x, y), (x - 6, y + 4)]
    if start == x:  # downwards
        tip = [(x - 4, y - 6), (x, y), (x + 4, y - 6)]
    drawing.path([points, tip], stroke=paint(colour), stroke_width=1.5, fill="none")


FIGURES = {
    "idea": idea,
    "threshold": threshold,
    "p_values": p_values,
    "monitor": monitor,
    "rate": rate,
    "pareto": pareto,
}
