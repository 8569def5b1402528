"""Which detectors are worth their cost: those that no cheaper one is as good as."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from typica.bench._engine import Comparison


class Worth(NamedTuple):
    """What a detector reaches, the mean AUROC, and what a row costs it, in microseconds."""

    name: str
    auroc: float
    microseconds: float


def pareto(compared: Mapping[str, Comparison]) -> list[Worth]:
    """Return the detectors of a comparison that are better than all cheaper ones, cheapest first.

    The cost is that of scoring a row. Times vary from run to run, and so may who is at the edge.
    """
    measured = []
    for name, row in compared.items():
        if row.evaluation is not None:
            measured.append(Worth(name, row.evaluation.average["auroc"], row.score_microseconds))
    front: list[Worth] = []
    for worth in sorted(measured, key=lambda worth: (worth.microseconds, -worth.auroc)):
        if not front or worth.auroc > front[-1].auroc:
            front.append(worth)
    return front
