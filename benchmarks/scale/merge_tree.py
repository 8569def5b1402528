"""The merge tree: measured here, then simulated for clusters that are not here.

    python benchmarks/scale/merge_tree.py --learn 500

First the time to merge states of CTM, bytes in and bytes out, for growing numbers of classes and of
partitions. Then a simulation of a fit in parts on N workers: each part is read and learnt at
`--learn` MB/s (None measures it), states are merged FAN at a time by whichever worker is free, as
soon as they are there, and go over a network of `--network` GB/s, which is assumed. It tells how
long all takes, how much of it comes after the last part was learnt, and how much of the workers'
time is merging: where that nears the learning itself, the reduce is the limit. Beside it stands the
formula of docs/scale.md.
"""

from __future__ import annotations

import argparse
import heapq
import math
import sys
import tempfile
import time
from collections import deque
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from typica import CTM
from typica.scale import Batch, Learner, learn_part, merge_learnt, open_tables

WIDTH = 768
FAN = 8
TIMES = 3


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--network", type=float, default=1.0, help="GB/s between workers; assumed")
    parser.add_argument("--learn", type=float, help="MB/s that one worker reads and learns")
    parser.add_argument("--merge", type=float, help="MB/s of states that one worker merges")
    asked = parser.parse_args()
    learn = asked.learn or learning_speed()
    print(f"reading and learning Parquet: {learn:,.0f} MB/s of float32 x {WIDTH}, 1,000 classes")
    rate = 1e6 * asked.merge if asked.merge else report_merging()
    constants = Constants(learn * 1e6, rate, asked.network * 1e9)
    report_known(constants)
    report_growth(constants)
    return 0


# Measured


def states_of(classes: int, partitions: int) -> list[bytes]:
    """Return what partitions have learnt, each of every class."""
    rng = np.random.default_rng(0)
    learner, states = Learner(CTM()), []
    labels = np.arange(classes)
    for number in range(partitions):
        Z = rng.standard_normal((classes, WIDTH), dtype=np.float32)
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


def report_merging() -> float:
    """Print the time of merging; return bytes of states merged per second, at 1,000 classes."""
    print("merging states of CTM, bytes in and bytes out, in one process:")
    print("  classes  partitions  MB a state   seconds  ms a state  MB/s")
    rate = 0.0
    for classes in (10, 100, 1000, 10_000):
        for partitions in (2, 8, 32):
            if classes * partitions > 100_000:
                continue
            states = states_of(classes, partitions)
            best = math.inf
            for _ in range(TIMES):
                start = time.perf_counter()
                merge_learnt(states)
                best = min(best, time.perf_counter() - start)
            size = len(states[0])
            speed = partitions * size / best
            each = 1000 * best / partitions
            columns = f"{size / 1e6:10.2f} {best:9.3f} {each:11.2f} {speed / 1e6:5.0f}"
            print(f"  {classes:7} {partitions:11} {columns}", flush=True)
            if (classes, partitions) == (1000, 8):
                rate = speed
    return rate


# Simulated


@dataclass(frozen=True)
class Constants:
    """Bytes per second that a worker learns and merges, and that go to it over the network."""

    learn: float
    merge: float
    network: float


@dataclass(frozen=True)
class Fit:
    """Rows of so many features and classes, cut into parts of so many bytes, on N workers."""

    rows: float
    width: int
    classes: int
    workers: int
    part: float = 2.0**28
    fan: int = FAN

    @property
    def parts(self) -> int:
        """How many parts there are."""
        return max(1, math.ceil(4 * self.rows * self.width / self.part))

    @property
    def state(self) -> float:
        """Bytes of a state: a sum for each class, and 2,048 rows."""
        return 8.0 * self.classes * self.width + 4.0 * 2048 * self.width


@dataclass(frozen=True)
class Course:
    """How long a fit takes, what of it is after the last part was learnt, and merging's share."""

    seconds: float
    tail: float
    merging: float


class Tree:
    """States that have come, by level; `ready` are groups of them that can be merged."""

    def __init__(self, parts: int, fan: int) -> None:
        self.fan = fan
        self.expected = [parts]  # states of each level
        while self.expected[-1] > 1:
            self.expected.append(-(-self.expected[-1] // fan))
        self.come = [0] * len(self.expected)
        self.ready: deque[tuple[int, int]] = deque()  # level and number of states

    def arrive(self, level: int) -> None:
        """Take in a state of a level."""
        self.come[level] += 1
        come, last = self.come[level], self.come[level] == self.expected[level]
        if self.done or (come % self.fan and not last):
            return
        self.ready.append((level, come % self.fan or self.fan))

    @property
    def done(self) -> bool:
        """Whether one state is left of all."""
        return self.come[-1] == 1


def simulate(fit: Fit, constants: Constants) -> Course:
    """Run the fit: a free worker merges what is ready, else it learns the next part.

    >>> course = simulate(Fit(1e6, 768, 1000, 4), Constants(1e9, 1e9, 1e9))
    >>> course.seconds > 4 * 1e6 * 768 / 1e9 / 4
    True
    """
    learning = fit.part / constants.learn
    each = fit.state / constants.merge + fit.state / constants.network
    tree = Tree(fit.parts, fit.fan)
    begun, idle, now, last, merging = 0, fit.workers, 0.0, 0.0, 0.0
    ends: list[tuple[float, int]] = []  # when a task ends, and the level of what it makes
    while not tree.done:
        while idle and (tree.ready or begun < fit.parts):
            idle -= 1
            if tree.ready:
                level, size = tree.ready.popleft()
                merging += size * each
                heapq.heappush(ends, (now + size * each, level + 1))
            else:
                begun += 1
                heapq.heappush(ends, (now + learning, 0))
        now, level = heapq.heappop(ends)
        idle += 1
        if level == 0:
            last = now
        tree.arrive(level)
    return Course(now, now - last, merging / (now * fit.workers))


def formula(fit: Fit, constants: Constants) -> float:
    """Return the seconds of a fit: learning, merging meanwhile, and the tree after the last part.

    B / (N v) + P S F / ((F - 1) N w) + ceil(log_F P) F S / w, with 1 / w = 1 / merge + 1 / network.
    """
    each = fit.state / constants.merge + fit.state / constants.network
    learning = 4 * fit.rows * fit.width / constants.learn / fit.workers
    merging = fit.parts * each * fit.fan / (fit.fan - 1) / fit.workers
    levels = len(Tree(fit.parts, fit.fan).expected) - 1
    last = levels * fit.fan * each if fit.workers > 1 else 0.0
    return learning + merging + last


KNOWN = {"ImageNet-1k": 1_281_167, "100 million": 1e8, "5 billion": 5e9}


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
