"""The paper's experiments on features: each gives one document of plain JSON types, of the same shape.

    {"suite", "title", "experiment", "protocol", "accuracy": {"standard", "cw", "cm"}, "near":
    [sets], "n": {set: rows},
     "results": {ROW: {"ood": {SET: {"fpr", "fpr_std", "auroc", ...}}, "average": {...}, "near":
     ..., "far": ...,
                       "params": {...}, "aurc", "e_aurc"}},
     "skipped": {ROW or SET: why, and what to do}, "absent": [SETS of these], "published": {ROW:
     {SET: {"fpr", "auroc"}, "average": {...}, "common": {"sets": [SETS], "fpr", "auroc"}}}}

All shares are fractions. A ROW is a method; in `ablation` it is standard, cw or cm, in `layers` a
layer; `analysis` has none, and the parts of `typica.bench.analysis` beside. "common" is the paper's
mean over the OOD sets that both have; in `ablation` and `layers`, of which it printed averages
alone, it says which these are, and "of" how many it has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from typica.bench import published
from typica.bench.analysis import analyse
from typica.bench.config import Suite
from typica.bench.methods import Scored, score_methods
from typica.bench.misclassification import aurc, e_aurc
from typica.bench.protocol import Measured, measure
from typica.bench.suite import FeatureSuite
from typica.detectors.ctm import CTM
from typica.detectors.cw import CW
from typica.errors import InputError

EXPERIMENTS = {
    "main": "the average of each method over the OOD sets",
    "detail": "each method on each OOD set, near and far apart",
    "ablation": "accuracy and AUROC of logits (Standard), cosines to weights (CW) and to class means (CM)",
    "layers": "CTM at each depth of the network",
    "analysis": "influence, one-hotness, perturbed weights, and what each OOD set is caught by",
    "misclassification": "how well each method ranks the network's own mistakes (AURC)",
}
PENULTIMATE = "penultimate"
ABLATION = {
    "standard": "max_logit",
    "cw": "cw",
    "cm": "ctm",
}  # rows, and the methods that score them


class Outcome(NamedTuple):
    """An experiment's document, and the scores behind it by row and set."""

    document: dict[str, Any]
    scores: dict[str, dict[str, NDArray[Any]]]


def run_experiment(
    experiment: str,
    suite: Suite,
    sets: FeatureSuite,
    methods: Mapping[str, Mapping[str, Any]],
    *,
    full: bool = False,
    on_done: Callable[[str], None] = lambda row: None,
) -> Outcome:
    """Run one of `EXPERIMENTS` on a suite's features; `on_done` is called with each row that is through."""
    if experiment not in EXPERIMENTS:
        raise InputError(
            f"bench: experiment {experiment!r} is unknown; choose one of {', '.join(EXPERIMENTS)}."
        )
    document = _header(experiment, suite, sets, full)
    scored: dict[str, Scored] = {}
    if experiment == "analysis":
        document |= analyse(sets)
        on_done("analysis")
    elif experiment == "ablation":
        scored = _ablation(suite, sets, on_done)
    elif experiment == "layers":
        scored = _layers(suite, sets, on_done)
    else:
        scored = score_methods(suite, sets, methods, on_done)
    wrong = _mistakes(sets)
    for row, found in scored.items():
        if found.error:
            document["skipped"][row] = found.error
            continue
        record = _record(row, found, suite, sets, full)
        if experiment not in ("layers", "ablation") and wrong is not None:
            record["aurc"], record["e_aurc"] = (
                aurc(found.sets["test"], wrong),
                e_aurc(found.sets["test"], wrong),
            )
        document["results"][row] = record
    document["skipped"] |= sets.missing
    if sets.head is not None and sets.classifier is None:
        document["skipped"]["accuracy"] = (
            "the head knows other classes than the labels; name the classes alike"
        )
    document["published"] = _published(experiment, suite, sets)
    return Outcome(
        document, {row: dict(found.sets) for row, found in scored.items() if not found.error}
    )


def rows_of(experiment: str, suite: Suite, methods: Mapping[str, Any]) -> int:
    """Return how many rows an experiment has to work through."""
    return {"analysis": 1, "ablation": len(ABLATION), "layers": len(suite.layers) + 1}.get(
        experiment, len(methods)
    )


def accuracies(sets: FeatureSuite) -> dict[str, float]:
    """Return the top-1 accuracy on `test` of the logits, of cosines to the weights (CW), and to the means (CM).

    What cannot be had is left out: without a head that knows the labels' classes, or where a
    direction is zero, whose detector then says so.
    """
    found = {}
    head = sets.classifier
    classifiers: dict[str, Callable[[], NDArray[Any]]] = {
        "cm": lambda: CTM().fit(sets.train, sets.train_labels).classify(sets.test)
    }
    if head is not None:
        classifiers = {
            "standard": lambda: head.predict(sets.test),
            "cw": lambda: CW(head).classify(sets.test),
        } | classifiers
    for name, classify in classifiers.items():
        with suppress(InputError):
            found[name] = float(np.mean(classify() == sets.test_labels))
    return found


def _header(experiment: str, suite: Suite, sets: FeatureSuite, full: bool) -> dict[str, Any]:
    protocol = suite.protocol
    stated = {key: getattr(protocol, key) for key in ("tpr", "convention", "subsets", "seed")}
    inputs = {"train": sets.train, "test": sets.test, **sets.ood}
    return {
        "suite": suite.name,
        "title": suite.title,
        "experiment": experiment,
        "protocol": stated | {"full": full},
        "accuracy": accuracies(sets),
        "near": [name for name in sets.ood if name in sets.near],
        "n": {name: len(features) for name, features in inputs.items()},
        "results": {},
        "skipped": {},
        "absent": list(sets.missing),
        "left_out": {name: list(reasons) for name, reasons in sets.left_out.items()},
    }


def _record(
    row: str, found: Scored, suite: Suite, sets: FeatureSuite, full: bool
) -> dict[str, Any]:
    strange = {name: found.sets[name] for name in sets.ood}
    measured: Measured = measure(row, found.sets["test"], strange, suite.protocol, full=full)
    record = measured.to_dict()
    kinds = {"near": sets.near, "far": sets.far}
    if all(kinds.values()):
        for kind, names in kinds.items():
            record[kind] = measured.average([name for name in sets.ood if name in names])
    return record | {"params": dict(found.params)}


def _ablation(
    suite: Suite, sets: FeatureSuite, on_done: Callable[[str], None]
) -> dict[str, Scored]:
    """Score by the largest logit (Standard), cosine to the weights (CW) and to the class means (CM)."""
    by_method = score_methods(suite, sets, {method: {} for method in ABLATION.values()}, on_done)
    return {
        row: replace(by_method[method], params={"score": method})
        for row, method in ABLATION.items()
    }


def _layers(suite: Suite, sets: FeatureSuite, on_done: Callable[[str], None]) -> dict[str, Scored]:
    """Score with CTM fitted at each depth."""
    advice = "write train.layer.{0}.npy, test.layer.{0}.npy and ood.NAME.layer.{0}.npy, or run with --data"
    absent = {layer: Scored(error=f"absent: {advice.format(layer)}") for layer in suite.layers}
    depths = {**sets.layers, PENULTIMATE: {"train": sets.train, "test": sets.test, **sets.ood}}
    scored = absent | dict.fromkeys(
        depths, Scored()
    )  # the suite's order, then what it does not name
    for layer, features in depths.items():
        at_depth = replace(
            sets,
            train=features["train"],
            test=features["test"],
            ood={name: features[name] for name in sets.ood},
            calibration=None,
            head_weight=None,
            layers={},
            scores={},
        )
        scored |= {layer: score_methods(suite, at_depth, {"ctm": {}})["ctm"]}
        on_done(layer)
    return scored


def _published(experiment: str, suite: Suite, sets: FeatureSuite) -> dict[str, Any]:
    if suite.published is None:
        return {}
    model, id_set = suite.published.model, suite.published.id_set
    if experiment in ("layers", "ablation"):
        printed = (published.layers if experiment == "layers" else published.ablation)(
            model, id_set
        )
        common = published.common_sets(id_set, sets.ood)
        return {row: {"average": numbers, "common": common} for row, numbers in printed.items()}
    if experiment == "analysis":
        return {}
    numbers = published.published_as(model, id_set, sets.ood)
    means = {
        method: published.comparable_average(model, id_set, method, sets.ood) for method in numbers
    }
    return {method: {**by_set, "common": means[method]} for method, by_set in numbers.items()}


def _mistakes(sets: FeatureSuite) -> NDArray[np.bool_] | None:
    head = sets.classifier
    return None if head is None else np.asarray(head.predict(sets.test) != sets.test_labels)
