"""The methods of a suite on its features: each is fitted and scored once, whoever asks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from typica.bench._feature_suite import FeatureSuite
from typica.bench._knn_grid import choose_k
from typica.bench._methods import make_method, needs_head
from typica.bench._runs import Run, Scores
from typica.bench._schema import CHOSEN, IMAGE_METHODS, Params, method_params
from typica.bench._skipped import Skipped
from typica.bench._suite import Protocol
from typica.detectors import Detector, reads_layers
from typica.errors import argument, border
from typica.origin import PENULTIMATE
from typica.progress import steps

KEPT: Final = ("ctm", "cw")  # small detectors that are needed again after they have scored


@dataclass(frozen=True)
class MethodScores:
    """The scores of one method on every set, or why there are none.

    params: what the method was run with, defaults included.
    """

    scores: Scores | None = None
    params: Params = field(default_factory=dict)
    skipped: Skipped | None = None


class Workbench:
    """Fits the methods of a suite and scores its sets; knows what it has done already."""

    def __init__(self, sets: FeatureSuite, protocol: Protocol | None = None) -> None:
        self.sets = sets
        self.protocol = protocol or Protocol()
        self._scored: dict[str, MethodScores] = {}
        self._kept: dict[str, Detector] = {}

    @border
    def detector(self, name: str) -> Detector:
        """Return one of the detectors that are `KEPT`, fitted, with its default parameters."""
        if name not in self._kept:
            detector = self._made(name, {})
            self._kept[name] = detector.fit(self.sets.train, self.sets.train_labels)
        return self._kept[name]

    @border
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

        The detector is not kept, unless it is needed again.
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
    """Return a benchmarked method's parameters as JSON types; detectors among them as text."""
    plain: dict[str, Any] = json.loads(json.dumps(dict(params), default=str))
    return plain
