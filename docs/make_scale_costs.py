"""Fill the tables of docs/scale_costs.md: what was measured, and what the model makes of it.

    python docs/make_scale_costs.py

The programs of benchmarks/scale write measured_one_machine.csv, measured_scale.csv and
measured_merge.csv; their `cost_model.py` has the formula and the simulation.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.append(str(DOCS.parent / "benchmarks" / "scale"))

from cost_model import FAN, PART, Constants, Fit, formula, simulate  # noqa: E402

PAGE = DOCS / "scale_costs.md"
WIDTH = 512  # of the rows that were measured
TOLD = 768  # of those that are told of
NETWORK = 1e9  # bytes per second, assumed
PRICE = 0.05  # dollars for an hour of a worker, assumed
KNOWN = {"ImageNet-1k": 1_281_167, "100 million": 1e8, "5 billion": 5e9}
CLUSTERS = (1, 8, 64, 512)
ENGINES = ("dask", "ray", "spark")
NAMES = {"none": "none", "dask": "Dask", "ray": "Ray", "spark": "Spark"}
SIMULATED = "dask"
MARKED = re.compile(r"(<!-- (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

Line = dict[str, str]


def main() -> None:
    """Write the tables into the page."""
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def filled(page: str) -> str:
    """Return the page with its tables made anew."""
    return MARKED.sub(lambda found: found[1] + TABLES[found[2]]() + found[3], page)


def lines_of(name: str) -> list[Line]:
    """Return the lines of a measured table."""
    with (DOCS / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of Markdown, with numbers to the right."""
    marks = ["---", *["---:"] * (len(heads) - 1)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (heads, marks, *rows))


# Measured


def one_machine() -> str:
    """Return what one machine does without an engine."""
    rows = []
    for line in lines_of("measured_one_machine.csv"):
        count, seconds = int(line["rows"]), float(line["seconds"])
        speed = f"{count / seconds:,.0f}", f"{4e-6 * WIDTH * count / seconds:,.0f}"
        told = f"{line['what']}, {count:,} x {WIDTH}"
        rows.append((told, f"{seconds:.1f}", *speed, line["ratio"], line["mib"]))
    heads = ("work", "seconds", "rows/s", "MB/s", "speed / pyarrow reading alone", "peak MiB")
    return table(heads, rows)


class Engines:
    """The seconds that each engine took, by workers, rows and kind of work."""

    def __init__(self) -> None:
        self.seconds = {
            (line["engine"], int(line["workers"]), int(line["rows"]), line["what"]): float(
                line["seconds"]
            )
            for line in lines_of("measured_scale.csv")
        }

    @property
    def runs(self) -> list[tuple[str, int, int]]:
        """Engine, workers and rows of each run, in the order of the engines."""
        order = list(NAMES)
        found = [key[:3] for key in self.seconds if key[3] == "fit"]
        return sorted(found, key=lambda run: (order.index(run[0]), *run[1:]))

    @property
    def most(self) -> int:
        """The rows of the largest size."""
        return max(rows for _, _, rows in self.runs)

    def learn(self, engine: str) -> float:
        """Return the bytes per second that a worker learns where another works beside it."""
        return 4 * WIDTH * self.most / self.seconds[engine, 2, self.most, "fit"] / 2

    def task(self, engine: str) -> float:
        """Return the seconds of a task that does nothing."""
        return self.seconds[engine, 2, 0, "task"]


def engines() -> str:
    """Return what engines do at three sizes."""
    found = Engines()
    rows = []
    for engine, workers, count in found.runs:
        fit = found.seconds[engine, workers, count, "fit"]
        score = found.seconds[engine, workers, count, "score"]
        bare = found.seconds.get((engine, workers, count, "sums"))
        times = "" if bare is None else f"{fit / bare:.2f}"
        name = "no engine" if engine == "none" else f"{NAMES[engine]}, {_workers(workers)}"
        speeds = [f"{count / fit:,.0f}", f"{4e-6 * WIDTH * count / fit:,.0f}"]
        speeds += [f"{count / score:,.0f}", f"{4e-6 * WIDTH * count / score:,.0f}"]
        rows.append((name, f"{count:,}", *speeds, times))
    heads = ("engine", "rows", "fit rows/s", "MB/s", "score rows/s", "MB/s", "fit / bare map")
    return table(heads, rows)


def _workers(count: int) -> str:
    return "1 worker" if count == 1 else f"{count} workers"


def merging() -> str:
    """Return how long states take to be merged."""
    rows = []
    for line in lines_of("measured_merge.csv"):
        states, size, took = int(line["partitions"]), int(line["state_bytes"]), _seconds(line)
        each = f"{1000 * took / states:.1f}"
        speed = f"{states * size / took / 1e6:,.0f}"
        rows.append((f"{int(line['classes']):,}", f"{states}", f"{size / 1e6:.1f}", each, speed))
    return table(("classes", "states", "MB a state", "ms a state", "MB/s"), rows)


def _seconds(line: Line) -> float:
    return float(line["seconds"])


# What the model takes


def merge_rate(classes: int) -> float:
    """Return the bytes of states of so many classes that are merged per second, FAN at a time."""
    found = [line for line in lines_of("measured_merge.csv") if int(line["classes"]) == classes]
    usual = max(
        (line for line in found if int(line["partitions"]) <= FAN),
        key=lambda line: int(line["partitions"]),
    )
    return int(usual["partitions"]) * int(usual["state_bytes"]) / _seconds(usual)


def constants_of(engine: str, classes: int = 1000) -> Constants:
    """Return the constants of an engine, rounded as the page states them."""
    found = Engines()
    learn, merge = round(found.learn(engine) / 1e6), round(merge_rate(classes) / 1e6)
    return Constants(1e6 * learn, 1e6 * merge, NETWORK, round(found.task(engine), 4))


def constants() -> str:
    """Return what the formula takes."""
    rows = []
    for engine in ENGINES:
        speed = f"{constants_of(engine).learn / 1e6:.0f} MB/s"
        rows.append((f"v, a worker learns on {NAMES[engine]}", speed, "measured"))
    for engine in ENGINES:
        took = f"{1000 * constants_of(engine).task:.1f} ms"
        rows.append((f"h, {NAMES[engine]} takes for a part", took, "measured"))
    for classes in (1000, 10_000, 100_000):
        merge = f"{constants_of('dask', classes).merge / 1e6:.0f} MB/s"
        rows.append((f"m, a worker merges states of {classes:,} classes", merge, "measured"))
    rows.append(("n, a worker receives", f"{NETWORK / 1e6:.0f} MB/s", "assumed"))
    rows.append(("F, states merged at a time", f"{FAN}", "as built, on Dask"))
    rows.append(("a part", f"{PART / 1e6:.0f} MB", "as built"))
    rows.append(("an hour of a worker", f"${PRICE:.2f}", "assumed"))
    return table(("constant", "value", ""), rows)


# Told


def known() -> str:
    """Return time and cost of known sizes on each engine, by the formula."""
    speeds = [constants_of(engine) for engine in ENGINES]
    rows = []
    for name, count in KNOWN.items():
        for workers in CLUSTERS:
            fit = Fit(count, TOLD, 1000, workers)
            if workers > fit.parts:
                continue
            seconds = [formula(fit, of) for of in speeds]
            costs = [PRICE * workers * took / 3600 for took in seconds]
            size = f"{fit.size / 1e9:,.0f}", f"{workers:,}", f"{fit.parts:,}"
            told = [f"{took:,.0f}" for took in seconds], [f"${cost:,.2f}" for cost in costs]
            rows.append((name, *size, *told[0], *told[1]))
    names = [NAMES[engine] for engine in ENGINES]
    heads = [f"{name}, seconds" for name in names] + [f"{name}, cost" for name in names]
    return table(["rows", "GB", "workers", "parts", *heads], rows)


def growth() -> str:
    """Return simulated fits that grow in workers and classes, and what larger parts do."""
    base = Fit(1e8, TOLD, 1000, 128)
    many = replace(base, classes=100_000)
    fits = [replace(base, workers=workers) for workers in (16, 128, 1024)]
    fits += [replace(base, classes=10_000), many, replace(many, part=16 * PART)]
    fits += [replace(many, sorted=True)]
    fits += [Fit(5e9, TOLD, 1000, 1024), Fit(5e9, TOLD, 1000, 1024, part=4 * PART)]
    fits += [Fit(5e9, TOLD, 100_000, 1024, part=k * PART) for k in (1, 16)]
    fits += [Fit(5e9, TOLD, 100_000, 1024, sorted=True)]
    rows = []
    for fit in fits:
        speeds = constants_of(SIMULATED, fit.classes)
        run = simulate(fit, speeds)
        classes = f"{fit.classes:,}, sorted" if fit.sorted else f"{fit.classes:,}"
        sizes = [classes, f"{fit.workers:,}", f"{fit.part / 1e6:,.0f}"]
        sizes += [f"{fit.parts:,}", f"{fit.state / 1e6:,.0f}"]
        told = "" if fit.sorted else f"{formula(fit, speeds):,.0f}"
        took = [told, f"{run.seconds:,.0f}", f"{run.tail:,.1f}"]
        took.append(f"{100 * run.merging:.0f} %")
        rows.append((f"{fit.rows / 1e6:,.0f} million", *sizes, *took))
    heads = ["rows", "classes", "workers", "part MB", "parts", "MB a state", "formula, s"]
    return table([*heads, "simulated, s", "after the last part, s", "merging"], rows)


TABLES = {
    "one_machine": one_machine,
    "engines": engines,
    "merging": merging,
    "constants": constants,
    "known": known,
    "growth": growth,
}

if __name__ == "__main__":
    main()
