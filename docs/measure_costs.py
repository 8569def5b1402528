"""Write docs/measured_costs.csv: what a row costs each detector, and how well it tells strangers.

    python docs/measure_costs.py FOLDER [--only NAME...]

This is `typica compare` on the features of a folder, as docs/measure_methods.py takes it; the mean
AUROC is over its OOD sets. Scoring is repeated, and the least time counts. With --only the lines of
other detectors stay. docs/make_figures.py draws cost against quality of it. Times mean something
only on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

import numpy as np
from measure_methods import Features, read_folder
from numpy.typing import NDArray

from typica import Head, list_detectors
from typica.bench import Comparison, compare, make_detectors

TABLE = Path(__file__).with_name("measured_costs.csv")
COLUMNS = ["method", "microseconds", "auroc"]
LEFT_OUT = {"ensemble", "layer_ensemble", "prototypes"}  # as dear and as good as what one puts in
REPEATS = 5
ENOUGH = 3.0  # seconds of scoring, after which it is not repeated

Array = NDArray[np.floating]


def main() -> None:
    """Measure what was asked for, and write the table by cost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", default=[])
    given = parser.parse_args()
    names = given.only or [name for name in list_detectors() if name not in LEFT_OUT]
    lines = {line["method"]: line for line in read_table()}
    lines |= measure(names, read_folder(given.folder))
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(lines.values(), key=lambda line: float(line["microseconds"])))
    print(f"{TABLE}: {len(lines)} detectors, {len(names)} of them measured now")


def read_table() -> list[dict[str, str]]:
    """Return the lines that are there."""
    if not TABLE.exists():
        return []
    with TABLE.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def measure(names: list[str], features: Features) -> dict[str, dict[str, str]]:
    """Return the line of every detector that could be compared."""
    head = Head(features["head.weight"], features["head.bias"])
    ood = {key.split(".")[1]: rows for key, rows in features.items() if key.startswith("ood.")}
    train, labels = features["train.features"], features["train.labels"]
    test = features["test.features"]
    lines = {}
    for name, row in compare(make_detectors(names, head), train, labels, test, ood).items():
        if row.evaluation is None:
            print(f"{name}: {row.error}", file=sys.stderr)
            continue
        microseconds = least_cost(row, test, ood)
        auroc = 100 * row.evaluation.average["auroc"]
        figures = (name, f"{microseconds:.2f}", f"{auroc:.2f}")
        lines[name] = dict(zip(COLUMNS, figures, strict=True))
        print(*figures, f"fitted in {row.fit_seconds:.1f} s")
    return lines


def least_cost(row: Comparison, test: Array, ood: dict[str, Array]) -> float:
    """Return the microseconds a row of the fastest of some runs."""
    count = len(test) + sum(map(len, ood.values()))
    times = [row.score_microseconds]
    while len(times) < REPEATS and sum(times) * count / 1e6 < ENOUGH:
        row.score(test, ood)
        times.append(row.score_microseconds)
    return min(times)


if __name__ == "__main__":
    main()
