"""Fit detectors and score sets with them: the engine of `compare`, `choose` and `bench`.

A detector that fails is reported in its place, and the others go on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, NamedTuple

import numpy as np

from typica.arrays import Array, as_features, row_blocks, to_numpy
from typica.bench._feature_suite import FeatureSuite
from typica.bench._knn_grid import choose_k
from typica.bench._methods import make_method, needs_head
from typica.bench._schema import CHOSEN, IMAGE_METHODS, Params, is_known, method_params
from typica.bench._skipped import Skipped
from typica.bench._suite import Protocol, Suite
from typica.checks import false_alarm_rate
from typica.detectors import (
    Detector,
    detector_class,
    list_detectors,
    reads_layers,
    takes_head,
)
from typica.errors import InputError, argument, border
from typica.head import Head
from typica.metrics import Evaluation, evaluate_many
from typica.origin import PENULTIMATE
from typica.progress import steps

# The methods of the CTM paper's tables, and those of them that are detectors of features.
PAPER_METHODS: Final = ("msp", "max_logit", "energy", "odin", "mahalanobis", "knn", "cw", "ctm")
PAPER: Final = tuple(name for name in PAPER_METHODS if name not in IMAGE_METHODS)
KEPT: Final = ("ctm", "cw")  # detectors that are asked again after they have scored: small ones


class Scores(NamedTuple):
    """What one method gave to `test`, to each OOD set and, if there is one, to the held-out set."""

    test: Array
    ood: dict[str, Array]
    calibration: Array = None


@dataclass(eq=False)
class Run:
    """One detector: its scores, or the error that stopped it; and what it cost.

    chosen: parameters that were chosen on the training data.
    """

    detector: Detector
    error: str = ""
    fit_seconds: float = 0.0
    score_microseconds: float = 0.0
    scores: Scores | None = None
    chosen: dict[str, Any] = field(default_factory=dict)

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Note an error here instead of letting it stop the other detectors."""
        try:
            yield
        except (ValueError, TypeError, ArithmeticError, MemoryError, ImportError) as error:
            self.error = str(error) or type(error).__name__

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Add to the seconds that fitting took."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.fit_seconds += time.perf_counter() - began

    def fit(self, train: Array, labels: Array) -> None:
        """Fit the detector on its own."""
        if not self.error:
            with self.reporting(), self.timed():
                self.detector.fit(train, labels)

    def score(self, test: Array, ood: Mapping[str, Array], calibration: Array = None) -> None:
        """Score every set, and note what a row costs."""
        score = self.detector.score_samples
        began = time.perf_counter()
        known, strange = score(test), {name: score(rows) for name, rows in ood.items()}
        count = len(known) + sum(map(len, strange.values()))
        self.score_microseconds = 1e6 * (time.perf_counter() - began) / count
        held_out = None if calibration is None else score(calibration)
        self.scores = Scores(known, strange, held_out)


@dataclass(eq=False)
class Comparison(Run):
    """How one detector did: its results, or the error that stopped it.

    Seconds to fit, microseconds to score a row; the scores are there where they were asked for.
    """

    evaluation: Evaluation | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON values."""
        if self.evaluation is None:
            return {"detector": self.detector.kind, "error": self.error}
        times = {"fit_seconds": self.fit_seconds, "score_microseconds": self.score_microseconds}
        return self.evaluation.to_dict() | times


def fitted(runs: Mapping[str, Run], train: Array, labels: Array) -> Iterator[tuple[str, Run]]:
    """Fit the detectors of these runs and yield each when it is ready, in their order.

    Those that can learn in a stream are fitted together. That reads the features once, and rounds
    otherwise than a fit on its own does.
    """
    streaming = [run for run in runs.values() if run.detector.tags.mergeable]
    _fit_together(streaming, train, labels)
    for name, run in runs.items():
        if run not in streaming:
            run.fit(train, labels)
        yield name, run


def _fit_together(runs: Sequence[Run], train: Array, labels: Array) -> None:
    """Fit detectors that learn in a stream, reading each block of the features once for all."""
    Z = as_features(train)
    y = None if labels is None else to_numpy(labels)
    if y is not None and y.shape != (Z.shape[0],):
        raise InputError(
            f"labels of shape {y.shape} for {Z.shape[0]} rows; pass one label per row."
        )
    for block in row_blocks(Z.shape[0], Z.shape[1]):
        rows, targets = Z[block, ...], None if y is None else y[block]
        for run in runs:
            if not run.error:
                with run.reporting(), run.timed():
                    run.detector.partial_fit(rows, targets)
    for run in runs:
        if not run.error:
            with run.reporting(), run.timed():
                run.detector.set_training_threshold(Z)


@border
def compare(
    detectors: Mapping[str, Detector],
    train: Array,
    labels: Array,
    test: Array,
    ood: Mapping[str, Array],
    *,
    alpha: Any = None,
    tpr: Any = None,
    calibration: Array = None,
    keep_scores: bool = False,
) -> dict[str, Comparison]:
    """Fit every detector on the same features and measure how it tells `test` from each OOD set.

    Those that can learn in a stream are fitted together, in one pass over the training features.
    alpha: the share of ID that may be rejected, 0.05 if neither it nor tpr = 1 - alpha is given.
    calibration: held-out features to set the thresholds on. keep_scores: leave the scores in each
    row.
    """
    rate = false_alarm_rate(alpha, tpr)
    table = {name: Comparison(detector) for name, detector in detectors.items()}
    with steps("comparing", len(table)) as done:
        for name, _ in fitted(table, train, labels):
            row = table[name]
            if not row.error:
                with row.reporting():
                    if calibration is not None:
                        row.detector.calibrate(calibration, alpha=rate)
                    row.score(test, ood)
                    row.evaluation = _evaluation(row, rate)
            if not keep_scores:
                row.scores = None
            done(name)
    return table


def _evaluation(run: Run, alpha: Fraction) -> Evaluation | None:
    if run.scores is None:
        return None
    return evaluate_many(run.detector.kind, run.scores.test, run.scores.ood, alpha=alpha)


def compare_on(
    suite: FeatureSuite,
    names: Iterable[str] | None = None,
    tpr: Any = None,
    *,
    alpha: Any = None,
) -> dict[str, Comparison]:
    """Compare detectors of these names (all if None) on a suite, calibrated on held-out rows."""
    return compare(
        make_detectors(names, Head(suite.head_weight, suite.head_bias, suite.classes)),
        suite.train,
        suite.train_labels,
        suite.test,
        suite.ood,
        alpha=alpha,
        tpr=tpr,
        calibration=suite.calibration,
    )


def accepted(suite: FeatureSuite, detector: Detector) -> dict[str, float]:
    """Return the share of rows that the threshold accepts: of `test` and of each OOD set."""
    shares = {}
    for name, features in {"test": suite.test, **suite.ood}.items():
        shares[name] = float(np.mean(detector.predict(features) == 1))
    return shares


def of_features() -> list[str]:
    """Return the names of all detectors but those that read several layers.

    >>> "ctm" in of_features(), "layer_ensemble" in of_features()
    (True, False)
    """
    return [name for name in list_detectors() if detector_class(name).tags.reads != "layers"]


def make_detectors(
    names: Iterable[str] | None = None, head: Head | None = None
) -> dict[str, Detector]:
    """Make detectors by their names (all if None), with the head where they use one.

    >>> list(make_detectors(["ctm", "msp"], Head(np.eye(2))))
    ['ctm', 'msp']
    """
    made = {}
    for name in of_features() if names is None else names:
        detector = detector_class(name)()
        made[detector.kind] = detector.set_params(head=head) if takes_head(detector) else detector
    return made


def named_methods(suite: Suite, wanted: str | None) -> dict[str, Params]:
    """Return the methods to run with their parameters.

    wanted: None for the suite's own, "all", "paper", or names with commas between; rectifiers
    stand before a detector with a + between.

    >>> from typica.bench import load_suite
    >>> named_methods(load_suite("cifar100-densenet"), "ctm,knn")
    {'ctm': {}, 'knn': {'k': 200}}
    """
    if wanted is None:
        return dict(suite.methods)
    known = [*list_detectors(), *IMAGE_METHODS]
    typed = [name.strip().lower().replace("-", "_") for name in wanted.split(",")]
    names = {"all": known, "paper": PAPER_METHODS}.get(wanted, typed)
    unknown = [repr(name) for name in names if not is_known(name)]
    if unknown:
        choices = ", ".join(sorted(known))
        raise InputError(
            f"{argument('methods')}: {', '.join(unknown)} unknown; choose from {choices}."
        )
    return {name: suite.methods.get(name, {}) for name in names}


@dataclass(frozen=True)
class MethodScores:
    """The scores of one method on every set, or why there are none.

    params: what the method was run with, defaults included.
    """

    scores: Scores | None = None
    params: Params = field(default_factory=dict)
    skipped: Skipped | None = None


class Engine:
    """The methods of a suite on its features: each is fitted and scored once, whoever asks."""

    def __init__(self, sets: FeatureSuite, protocol: Protocol | None = None) -> None:
        self.sets = sets
        self.protocol = protocol or Protocol()
        self._scored: dict[str, MethodScores] = {}
        self._kept: dict[str, Detector] = {}

    def detector(self, name: str) -> Detector:
        """Return one of the detectors that are `KEPT`, fitted, with its default parameters."""
        if name not in self._kept:
            detector = self._made(name, {})
            self._kept[name] = detector.fit(self.sets.train, self.sets.train_labels)
        return self._kept[name]

    def scored(self, methods: Mapping[str, Params]) -> dict[str, MethodScores]:
        """Return the scores of methods with these parameters; one that fails keeps its place."""
        wanted = {_key(name, params): name for name, params in methods.items()}
        to_measure = {key: name for key, name in wanted.items() if key not in self._scored}
        with steps("measuring", len(to_measure)) as done:
            for key, name in to_measure.items():
                self._scored[key] = self._measured(name, methods[name])
                done(name)
        return {name: self._scored[key] for key, name in wanted.items()}

    def _measured(self, name: str, params: Params) -> MethodScores:
        """Fit and score one method on its own, so that its numbers depend on no other.

        The detector goes with it, unless it is asked again.
        """
        if self._lacks_input(name):
            return self._without_fit(name, params)
        run = self._fitted(name, params)
        if not run.error:
            with run.reporting():
                self._score(run)
        used = method_params(name) | dict(params) | run.chosen
        if run.error:
            return MethodScores(params=_plain(used), skipped=Skipped("failed", run.error))
        if name in KEPT and not params:
            self._kept[name] = run.detector
        return MethodScores(run.scores, _plain(used))

    def _lacks_input(self, name: str) -> bool:
        """Tell whether a method needs more than features: images, layers, or an unknown head."""
        if name in IMAGE_METHODS:
            return True
        if _reads_layers(name) and not self.sets.layers:
            return True
        return self.sets.head is None and needs_head(name)

    def _rows(self, detector: Detector, name: str, features: Any) -> Any:
        """Return what a detector reads of a set: its features, or those of all layers."""
        if reads_layers(detector) is None:
            return features
        layers = {layer: by_set[name] for layer, by_set in self.sets.layers.items()}
        return {**layers, PENULTIMATE: features}

    def _score(self, run: Run) -> None:
        """Score every set with a fitted detector; there are no layers of the held-out one."""
        sets, detector = self.sets, run.detector
        ood = {name: self._rows(detector, name, rows) for name, rows in sets.ood.items()}
        held_out = sets.calibration if reads_layers(detector) is None else None
        run.score(self._rows(detector, "test", sets.test), ood, held_out)

    def _without_fit(self, name: str, params: Params) -> MethodScores:
        """Return the scores that came with the images, or say what is needed."""
        used = method_params(name) | dict(params)
        if name not in IMAGE_METHODS and _reads_layers(name):
            how = f"name some in the suite, and run with {argument('data', 'DIR')}"
            return MethodScores(params=_plain(used), skipped=Skipped("needs layers", how))
        if name not in IMAGE_METHODS:
            reason = Skipped("needs a head", "give head.weight.npy and head.bias.npy")
            return MethodScores(params=used, skipped=reason)
        if name not in self.sets.scores:
            how = f"run with {argument('data', 'DIR')}"
            why = f"it moves the input, which features do not hold; {how}"
            return MethodScores(params=used, skipped=Skipped("needs images", why))
        by_set = {key: np.asarray(scores) for key, scores in self.sets.scores[name].items()}
        held_out = by_set.pop("calibration", None)
        return MethodScores(Scores(by_set.pop("test"), by_set, held_out), used)

    def _fitted(self, name: str, params: Params) -> Run:
        if name in self._kept and not params:
            return Run(self._kept[name])
        sets, run = self.sets, Run(self._made(name, params))
        if params.get("k") == CHOSEN:
            with run.reporting():
                self._choose_k(run)
        run.fit(self._rows(run.detector, "train", sets.train), sets.train_labels)
        return run

    def _choose_k(self, run: Run) -> None:
        sets, protocol = self.sets, self.protocol
        k, by_k = choose_k(sets.train, sets.train_labels, protocol.knn_grid, protocol.seed)
        run.detector.set_params(k=k)
        run.chosen = {"k": k, "k_grid": {str(k): auroc for k, auroc in by_k.items()}}

    def _made(self, name: str, params: Params) -> Any:
        """Make an unfitted detector, or Pipeline, with the suite's head where it is used."""
        return make_method(name, params, self.sets.head)


def _reads_layers(name: str) -> bool:
    return reads_layers(make_method(name, {}, None)) is not None


def _key(name: str, params: Params) -> str:
    return f"{name} {json.dumps(params, sort_keys=True, default=str)}"


def _plain(params: Params) -> dict[str, Any]:
    """Return parameters as JSON types; what is not one (detectors inside an ensemble) as text."""
    plain: dict[str, Any] = json.loads(json.dumps(dict(params), default=str))
    return plain
