"""The paper's experiments on features: each gives one record (`typica.bench._record`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from typica.arrays import AnyArray
from typica.bench import published
from typica.bench._analysis import analyse
from typica.bench._feature_suite import FeatureSuite
from typica.bench._intervals import with_intervals
from typica.bench._printed import Printed
from typica.bench._protocol import Measured, measure
from typica.bench._record import ACCURACY, Record, Row, Stated
from typica.bench._runs import Scores
from typica.bench._schema import Params
from typica.bench._skipped import Skipped
from typica.bench._suite import Suite
from typica.bench._workbench import MethodScores, Workbench
from typica.bench.published import PAPER
from typica.errors import InputError, argument, border
from typica.metrics import aurc, e_aurc
from typica.progress import steps

EXPERIMENTS = {
    "main": "the average of each method over the OOD sets",
    "detail": "each method on each OOD set, near and far apart",
    "ablation": "accuracy and AUROC of logits (Standard), cosines to weights (CW) and to class "
    "means (CM)",
    "layers": "CTM at each depth of the network",
    "analysis": "influence, one-hotness, perturbed weights, and what each OOD set is caught by",
    "misclassification": "how well each method ranks the network's own mistakes (AURC)",
}
APART = ("ablation", "layers", "analysis")  # experiments with rows of their own
_OF_OTHER_ROWS = ("ablation", "layers")  # whose rows are not methods
PENULTIMATE: Final = "penultimate"
ABLATION: Final = {"standard": "max_logit", "cw": "cw", "cm": "ctm"}  # row -> method


class Outcome(NamedTuple):
    """An experiment's record, and the scores behind it by row."""

    record: Record
    scores: dict[str, Scores]

    def check_measured(self) -> None:
        """Raise if no method could be measured, where the experiment measures any."""
        record = self.record
        if record.experiment != "analysis" and not record.rows:
            reason = next(iter(record.skipped.values()), "name methods")
            raise InputError(f"nothing could be measured; {reason}.")


@border
def run_experiment(
    experiment: str,
    suite: Suite,
    sets: FeatureSuite,
    methods: Mapping[str, Params],
    *,
    full: bool = False,
    workbench: Workbench | None = None,
) -> Outcome:
    """Run one of `EXPERIMENTS` on a suite's features.

    Parameters
    ----------
    experiment
        Its name.
    suite, sets
        The suite and its features, as `suite_features` returns them.
    methods
        Parameters by method, as `named_methods` returns them.
    full
        Whether to take OOD sets whole; the suite's protocol may say so too.
    workbench
        The one of an earlier experiment on these features; what it has fitted is not fitted again.
    """
    _check_known(experiment)
    workbench = workbench or Workbench(sets, suite.protocol)
    full = full or suite.protocol.full
    scored = _scored(experiment, suite, methods, workbench)
    found = {row: entry.scores for row, entry in scored.items() if entry.scores is not None}
    rows = {}
    for row, scores in found.items():
        measured = _row(row, scores, suite, sets, full)
        rows[row] = replace(measured, params=scored[row].params)
    if experiment not in _OF_OTHER_ROWS:
        rows = _with_mistakes(rows, found, sets)
    record = replace(
        _without_results(experiment, suite, sets, full),
        accuracy=accuracies(workbench),
        rows=rows,
        skipped=_skipped(scored, sets),
        analysis=analyse(workbench) if experiment == "analysis" else None,
    )
    return Outcome(with_intervals(record, found), found)


def _without_results(experiment: str, suite: Suite, sets: FeatureSuite, full: bool) -> Record:
    """Return the record of what is known before anything is measured."""
    return Record(
        suite=suite.name,
        title=suite.title,
        experiment=experiment,
        protocol=_stated(suite, full),
        near=tuple(name for name in sets.ood if name in sets.near),
        n=_sizes(sets),
        absent=tuple(sets.missing),
        left_out=sets.left_out,
        published=_published(experiment, suite, sets),
        published_by=PAPER if suite.published is None else suite.published.by,
    )


def _check_known(experiment: str) -> None:
    if experiment not in EXPERIMENTS:
        choices = ", ".join(EXPERIMENTS)
        raise InputError(f"experiment {experiment!r} is unknown; choose one of {choices}.")


def without_idle_methods(suite: Suite, experiment: str, *, for_report: bool = False) -> Suite:
    """Return the suite without its methods, if neither experiment nor report scores with them.

    Then no image has to go through the network just for them.
    """
    if experiment in APART and not for_report:
        return replace(suite, methods={})
    return suite


def accuracies(workbench: Workbench) -> dict[str, float]:
    """Return the top-1 accuracy on `test` of logits, cosines to weights (CW) and to means (CM).

    One that cannot be computed is left out: if no head knows the labels' classes, or if a direction
    is zero, which its detector then reports.
    """
    sets = workbench.sets
    head = sets.classifier
    classifiers: dict[str, Callable[[], AnyArray]] = {}
    if head is not None:
        classifiers["standard"] = lambda: head.predict(sets.test)
        classifiers["cw"] = lambda: workbench.detector("cw").classify(sets.test)
    classifiers["cm"] = lambda: workbench.detector("ctm").classify(sets.test)
    found = {}
    for name, classify in classifiers.items():
        with suppress(InputError):
            found[name] = float(np.mean(classify() == sets.test_labels))
    return found


def _stated(suite: Suite, full: bool) -> Stated:
    protocol = suite.protocol
    return Stated(protocol.tpr, protocol.convention, protocol.subsets, protocol.seed, full)


def _sizes(sets: FeatureSuite) -> dict[str, int]:
    inputs = {"train": sets.train, "test": sets.test, **sets.ood}
    return {name: len(features) for name, features in inputs.items()}


def _scored(
    experiment: str, suite: Suite, methods: Mapping[str, Params], workbench: Workbench
) -> dict[str, MethodScores]:
    if experiment == "analysis":
        return {}
    if experiment == "ablation":
        return _ablation(workbench)
    if experiment == "layers":
        return _layers(suite, workbench)
    return workbench.scored(methods)


def _ablation(workbench: Workbench) -> dict[str, MethodScores]:
    """Score by the largest logit (Standard), cosine to the weights (CW) and to the means (CM)."""
    by_method = workbench.scored({method: {} for method in ABLATION.values()})
    rows = {}
    for row, method in ABLATION.items():
        rows[row] = replace(by_method[method], params={"score": method})
    return rows


def _layers(suite: Suite, workbench: Workbench) -> dict[str, MethodScores]:
    """Score with CTM fitted at each depth."""
    sets = workbench.sets
    scored = {layer: _absent_layer(layer) for layer in suite.layers}
    with steps("measuring layers", len(sets.layers)) as done:
        for layer, features in sets.layers.items():
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
            scored[layer] = Workbench(at_depth).scored({"ctm": {}})["ctm"]
            done(layer)
    last = workbench.scored({"ctm": {}})["ctm"]
    return scored | {PENULTIMATE: _without_held_out(last)}


def _absent_layer(layer: str) -> MethodScores:
    files = f"train.layer.{layer}.npy, test.layer.{layer}.npy and ood.NAME.layer.{layer}.npy"
    why = f"write {files}, or run with {argument('data', 'DIR')}"
    return MethodScores(skipped=Skipped("absent", why))


def _without_held_out(scored: MethodScores) -> MethodScores:
    """Leave out the scores of the held-out set, which other depths do not have."""
    if scored.scores is None:
        return scored
    return replace(scored, scores=scored.scores._replace(calibration=None))


def _row(row: str, scores: Scores, suite: Suite, sets: FeatureSuite, full: bool) -> Row:
    strange = {name: scores.ood[name] for name in sets.ood}
    measured = measure(row, scores.test, strange, suite.protocol, full=full)
    made = Row(measured.on_sets(), measured.average())
    if not sets.near or not sets.far:
        return made
    near, far = _average_of(measured, sets, sets.near), _average_of(measured, sets, sets.far)
    return replace(made, near=near, far=far)


def _average_of(measured: Measured, sets: FeatureSuite, kind: frozenset[str]) -> Any:
    return measured.average([name for name in sets.ood if name in kind])


def _with_mistakes(
    rows: Mapping[str, Row], scores: Mapping[str, Scores], sets: FeatureSuite
) -> dict[str, Row]:
    """Add how well each row ranks the network's own mistakes, where these are known."""
    head = sets.classifier
    if head is None:
        return dict(rows)
    wrong = np.asarray(head.predict(sets.test) != sets.test_labels)
    found = {}
    for name, row in rows.items():
        test = scores[name].test
        found[name] = replace(row, aurc=aurc(test, wrong), e_aurc=e_aurc(test, wrong))
    return found


def _skipped(scored: Mapping[str, MethodScores], sets: FeatureSuite) -> dict[str, Skipped]:
    skipped = {row: found.skipped for row, found in scored.items() if found.skipped is not None}
    for name, why in sets.missing.items():
        skipped[name] = Skipped("absent", why)
    if sets.head is not None and sets.classifier is None:
        why = "the classes of the head are not those of the labels; use the same names"
        skipped[ACCURACY] = Skipped("failed", why)
    return skipped


def _published(experiment: str, suite: Suite, sets: FeatureSuite) -> dict[str, Printed]:
    if suite.published is None or experiment == "analysis":
        return {}
    model, id_set, by = suite.published.model, suite.published.id_set, suite.published.by
    if experiment in ("layers", "ablation"):
        averages = published.layers if experiment == "layers" else published.ablation
        common = published.common_sets(id_set, sets.ood)
        printed = averages(model, id_set)
        return {row: Printed(average=numbers, means=(common,)) for row, numbers in printed.items()}
    found = {}
    means = published.means_of(model, id_set, by)
    ood = list(sets.ood)
    for method, by_set in published.published_as(model, id_set, ood, by).items():
        comparable = published.comparable_means(model, id_set, method, ood, by)
        found[method] = Printed(
            sets={name: numbers for name, numbers in by_set.items() if name not in means},
            average=by_set.get(published.AVERAGE, {}),
            means=tuple(comparable),
        )
    return found
