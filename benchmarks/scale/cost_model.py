"""How long a fit in parts takes on a cluster: a formula, and a simulation of the merge tree.

A worker reads and learns a part at so many bytes per second; what was learnt, a state, is merged
with others FAN at a time by whichever worker is free, as soon as they are there, and goes to it
over the network. The engine hands out one task after the other, and takes its time for each.
docs/scale_costs.md tells what comes of it; its constants are measured.

    T = max(B / (N v) + P S F / ((F - 1) N w),  P h) + L F S / w,    1 / w = 1 / merge + 1 / network

B: bytes of features; N: workers; v: bytes per second that a worker learns; P: parts; S: bytes of a
state; F: states merged at a time; L = ceil(log_F P): levels of the tree; h: what the engine itself
takes for a part, with its share of the tree.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass

FAN = 8
PART = 2.0**28  # bytes
SAMPLE = 2600  # rows, 2,048 and some to spare, of which a part's state carries its share


@dataclass(frozen=True)
class Constants:
    """Bytes per second that a worker learns and merges, and that go to it over the network.

    task: seconds that the engine itself takes for a part, with its share of the tree.
    """

    learn: float
    merge: float
    network: float
    task: float = 0.0

    @property
    def through(self) -> float:
        """Bytes of states per second that are fetched and merged."""
        return 1 / (1 / self.merge + 1 / self.network)


@dataclass(frozen=True)
class Fit:
    """Rows of so many features and classes, cut into parts of so many bytes, on N workers.

    sorted: by class, so that a part knows a few classes only; else every part knows all of them.
    """

    rows: float
    width: int
    classes: int
    workers: int
    part: float = PART
    fan: int = FAN
    sorted: bool = False

    @property
    def size(self) -> float:
        """Bytes of float32 features."""
        return 4.0 * self.rows * self.width

    @property
    def parts(self) -> int:
        """How many parts there are."""
        return max(1, math.ceil(self.size / self.part))

    @property
    def state(self) -> float:
        """Bytes of a part's state of CTM: a sum in float64 for each class, and a few rows."""
        return self.state_at(0)

    def state_at(self, level: int) -> float:
        """Return the bytes of a state that was merged so many times, FAN at a time."""
        share = min(1.0, self.fan**level / self.parts)
        classes = self.classes * (share if self.sorted else 1.0)
        return 8.0 * classes * self.width + 4.0 * share * SAMPLE * self.width

    @property
    def levels(self) -> int:
        """How many levels the tree has above the parts."""
        return len(Tree(self.parts, self.fan).expected) - 1


def formula(fit: Fit, constants: Constants) -> float:
    """Return the seconds of a fit whose parts know all classes, by the formula above.

    >>> round(formula(Fit(1e6, 768, 1000, 4), Constants(1e9, 1e9, 1e9)), 2)
    1.04
    """
    each = fit.state / constants.through
    learning = fit.size / constants.learn / fit.workers
    if fit.parts == 1:
        return learning
    merging = fit.parts * each * fit.fan / (fit.fan - 1) / fit.workers
    last = fit.levels * min(fit.fan, fit.parts) * each if fit.workers > 1 else 0.0
    return max(learning + merging, fit.parts * constants.task) + last


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
    learning = fit.size / fit.parts / constants.learn
    tree = Tree(fit.parts, fit.fan)
    handing = constants.task * (fit.fan - 1) / fit.fan  # of each task, merges among them
    begun, idle, now, last, merging, handed = 0, fit.workers, 0.0, 0.0, 0.0, 0.0
    ends: list[tuple[float, int]] = []  # when a task ends, and the level of what it makes
    while not tree.done:
        while idle and (tree.ready or begun < fit.parts):
            idle -= 1
            handed = max(now, handed) + handing
            if tree.ready:
                level, size = tree.ready.popleft()
                took = size * fit.state_at(level) / constants.through
                merging += took
                heapq.heappush(ends, (handed + took, level + 1))
            else:
                begun += 1
                heapq.heappush(ends, (handed + learning, 0))
        now, level = heapq.heappop(ends)
        idle += 1
        if level == 0:
            last = now
        tree.arrive(level)
    return Course(now, now - last, merging / (now * fit.workers))
