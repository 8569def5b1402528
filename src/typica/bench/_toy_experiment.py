"""The toy experiment that the paper leaves undone: less certain class means, and what moves.

W is moved along minus the gradient of the mean KL(u || p) at the class means, so that they become
less certain; how far do predictions move on ID and OOD?
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from typica.bench._analysis_record import CertaintyAtMeans, Curve, Steps
from typica.bench._feature_suite import FeatureSuite
from typica.bench._influence import Floats, Moved, divergence, moved, uncertainty_gradient
from typica.errors import InputError
from typica.head import Head
from typica.metrics import evaluate

# Lengths of the step, in lengths of W.
STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
MOVES = {"variation": "total variation", "uncertainty": "fall of KL(u || p)"}


def toy_experiment(sets: FeatureSuite, means: Floats, head: Head) -> tuple[Steps, dict[str, Curve]]:
    """(c) How far predictions move when W steps along minus the gradient of KL(u || p).

    Returns the steps (their sizes in lengths of W, the mean of KL(u || p) at the class means, which
    falls, and the AUROC of how far an input moves, as a score) and two curves over the sizes, by
    set: the mean total variation between the predictions before and after, and by how much
    KL(u || p) falls on average.
    """
    W = head.weight.astype(np.float64)
    gradient = uncertainty_gradient(means, head)
    length = np.linalg.norm(gradient)
    if length == 0:
        raise InputError(
            "analysis: the predictions at the class means are uniform already; check the head."
        )
    unit = -gradient / length * np.linalg.norm(W)
    logits = means @ W.T + head.bias
    after = [float(divergence(logits + size * means @ unit.T).mean()) for size in STEPS]
    by_step = [_moved(sets, head, size * unit) for size in STEPS]
    steps = Steps(
        sizes=list(STEPS),
        at_means=CertaintyAtMeans(float(divergence(logits).mean()), after),
        auroc={quantity: _step_aurocs(by_step, quantity, sets.ood) for quantity in MOVES},
    )
    curves = {}
    for quantity, label in MOVES.items():
        lines = {name: _step_means(by_step, quantity, name) for name in sets.tests}
        curves[quantity] = Curve(list(STEPS), lines, "step on the weights, in lengths of W", label)
    return steps, curves


def _moved(sets: FeatureSuite, head: Head, step: Floats) -> dict[str, Moved]:
    return {name: moved(Z, head, step) for name, Z in sets.tests.items()}


def _step_aurocs(
    by_step: Sequence[Mapping[str, Moved]], quantity: str, names: Mapping[str, Any]
) -> dict[str, list[float]]:
    aurocs: dict[str, list[float]] = {name: [] for name in names}
    for at_step in by_step:
        known = getattr(at_step["test"], quantity)
        for name in names:
            aurocs[name].append(evaluate(known, getattr(at_step[name], quantity)).auroc)
    return aurocs


def _step_means(by_step: Sequence[Mapping[str, Moved]], quantity: str, name: str) -> list[float]:
    return [float(getattr(at_step[name], quantity).mean()) for at_step in by_step]
