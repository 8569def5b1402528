"""The merge tree: measured here, then simulated for clusters that are not here.

    python benchmarks/scale/merge_tree.py --learn 500

First the time to merge states of CTM, bytes in and bytes out, for growing numbers of classes and of
partitions. Then what `cost_model.py` makes of it: the time of fits on N workers, by its formula and
simulated. `--learn`: MB/s at which a worker reads and learns (without it that is measured).
`--network`: GB/s between workers, which is assumed. `--record docs/measured_merge.csv` keeps the
times for docs/make_scale_costs.py.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from cost_model import SAMPLE, Constants, Fit, formula, simulate

from typica import CTM
from typica.scale import Batch, Learner, learn_part, merge_learnt, open_tables

WIDTH = 768
TIMES = 3
CLASSES = (10, 100, 1000, 10_000, 100_000)
PARTITIONS = (2, 8, 32)
MOST = 2e9  # bytes of states that are held
USUAL = (1000, 8)  # classes and partitions of the rate that the model takes
KNOWN = {"ImageNet-1k": 1_281_167, "100 million": 1e8, "5 billion": 5e9}


class Merged(NamedTuple):
    """Seconds to merge states of so many bytes each."""

    classes: int
    partitions: int
    state_bytes: int
    seconds: float

    @property
    def rate(self) -> float:
        """Bytes of states per second."""
        return self.partitions * self.state_bytes / self.seconds


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--network", type=float, default=1.0, help="GB/s between workers; assumed")
    parser.add_argument("--learn", type=float, help="MB/s that one worker reads and learns")
    parser.add_argument("--record", type=Path, help="a table of all times")
    asked = parser.parse_args()
    learn = asked.learn or learning_speed()
    print(f"reading and learning Parquet: {learn:,.0f} MB/s of float32 x {WIDTH}, 1,000 classes")
    merged = report_merging()
    if asked.record is not None:
        record(asked.record, merged)
    usual = next(one for one in merged if (one.classes, one.partitions) == USUAL)
    constants = Constants(learn * 1e6, usual.rate, asked.network * 1e9)
    report_known(constants)
    report_growth(constants)
    return 0


def record(path: Path, merged: list[Merged]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Merged._fields)
        writer.writerows([*one[:3], f"{one.seconds:.4f}"] for one in merged)


# Measured


def states_of(classes: int, partitions: int) -> list[bytes]:
    """Return what partitions have learnt, each of every class and with its share of a sample."""
    rng = np.random.default_rng(0)
    rows = max(classes, SAMPLE)
    learner, states = Learner(CTM()).expect(rows * partitions), []
    labels = np.arange(rows) % classes
    for number in range(partitions):
        Z = rng.standard_normal((rows, WIDTH), dtype=np.float32)
        batch = Batch(Z, labels, source=f"{number}")
        states.append(learner.fresh().add(batch).to_bytes())
    return states


def learning_speed() -> float:
    """Return the MB/s at which one worker reads and learns a part of Parquet."""
    rows = 2**16
    Z = np.random.default_rng(0).standard_normal((rows, WIDTH), dtype=np.float32)
    offsets = np.arange(rows + 1, dtype=np.int32) * WIDTH
    lists = pa.ListArray.from_arrays(offsets, Z.ravel())
    table = pa.table({"features": lists, "label": np.arange(rows) % 1000})
    plan, best = Learner(CTM()).to_bytes(), math.inf
    with tempfile.TemporaryDirectory() as folder:
        pq.write_table(table, f"{folder}/a.parquet", use_dictionary=["label"])
        tables = open_tables(folder, features="features", labels="label")
        for _ in range(TIMES):
            start = time.perf_counter()
            for part in tables.parts:
                learn_part(plan, part, tables.columns)
            best = min(best, time.perf_counter() - start)
    return Z.nbytes / best / 1e6


def report_merging() -> list[Merged]:
    """Measure and print the time of merging."""
    print("merging states of CTM, bytes in and bytes out, in one process:")
    print("  classes  partitions  MB a state   seconds  ms a state  MB/s")
    merged = []
    for classes in CLASSES:
        for partitions in PARTITIONS:
            if 8.0 * classes * WIDTH * partitions > MOST:
                continue
            one = merging(classes, partitions)
            each = 1000 * one.seconds / partitions
            columns = f"{one.state_bytes / 1e6:10.2f} {one.seconds:9.3f} {each:11.2f}"
            print(f"  {classes:7} {partitions:11} {columns} {one.rate / 1e6:5.0f}", flush=True)
            merged.append(one)
    return merged


def merging(classes: int, partitions: int) -> Merged:
    states, best = states_of(classes, partitions), math.inf
    for _ in range(TIMES):
        start = time.perf_counter()
        merge_learnt(states)
        best = min(best, time.perf_counter() - start)
    return Merged(classes, partitions, len(states[0]), best)


# Simulated


def report_known(constants: Constants) -> None:
    """Print the time of data sets of 768 features and 1,000 classes on growing clusters."""
    print("a fit of 1,000 classes x 768, by the formula and simulated:")
    print("  rows          workers    parts  formula s  simulated s  worker hours")
    for name, rows in KNOWN.items():
        for workers in (1, 8, 64, 512):
            fit = Fit(rows, WIDTH, 1000, workers)
            if workers > fit.parts:
                continue
            told, course = formula(fit, constants), simulate(fit, constants)
            hours = workers * course.seconds / 3600
            took = f"{told:10.1f} {course.seconds:12.1f} {hours:13.2f}"
            print(f"  {name:<12} {workers:8} {fit.parts:8} {took}", flush=True)


def report_growth(constants: Constants) -> None:
    """Print fits that grow in workers and in classes, and what larger parts do."""
    speeds = (constants.learn / 1e6, constants.merge / 1e6, constants.network / 1e9)
    told = "learns {:,.0f} MB/s, merges {:,.0f} MB/s, receives {:.1f} GB/s".format(*speeds)
    print(f"simulated fits of CTM; a worker {told}:")
    print("  rows        classes  workers  part MB   parts  MB a state  seconds  tail s  merging")
    base = Fit(1e8, WIDTH, 1000, 1)
    fits = [replace(base, workers=n) for n in (1, 16, 256, 1024)]
    fits += [replace(base, workers=64, classes=c) for c in (1000, 10_000, 100_000)]
    fits += [replace(base, workers=64, classes=100_000, part=2.0**28 * k) for k in (4, 16)]
    fits += [Fit(5e9, WIDTH, 1000, n) for n in (64, 1024)]
    for fit in fits:
        course = simulate(fit, constants)
        size = f"{fit.part / 1e6:8.0f} {fit.parts:7} {fit.state / 1e6:11.1f}"
        took = f"{course.seconds:8.1f} {course.tail:7.1f} {course.merging:8.1%}"
        print(f"  {fit.rows:<11.0e} {fit.classes:7} {fit.workers:8} {size} {took}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
