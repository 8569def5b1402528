"""Fit the methods of a suite and score every set with them; what cannot be done is said in the method's place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica.bench._schema import IMAGE_METHODS, method_params
from typica.bench.config import Suite
from typica.bench.neighbours import choose_k
from typica.bench.run import PAPER, wants_head
from typica.bench.suite import FeatureSuite
from typica.detectors import Detector, detector_class, list_detectors
from typica.errors import InputError

IN_PAPER = tuple(
    name for name in (*PAPER[:3], "odin", *PAPER[3:]) if name != "cw"
)  # the rows of its main table


@dataclass(frozen=True)
class Scored:
    """The scores of one method on every set, or the reason why there are none.

    sets: {"test", "calibration" (maybe), and the names of the OOD sets: scores (n,)}; params: what
    the method was run with, defaults included.
    """

    sets: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""


def named_methods(suite: Suite, wanted: str | None) -> dict[str, Mapping[str, Any]]:
    """Return the methods to run with their parameters: None for the suite's own, "all", "paper", or names.

    >>> from typica.bench.config import load_suite
    >>> named_methods(load_suite("cifar100-densenet"), "ctm,knn")
    {'ctm': {}, 'knn': {'k': 200}}
    """
    known = [*list_detectors(), *IMAGE_METHODS]
    if wanted is None:
        return dict(suite.methods)
    names: Iterable[str] = {"all": known, "paper": IN_PAPER}.get(wanted) or [
        name.strip().lower().replace("-", "_") for name in wanted.split(",")
    ]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InputError(
            f"--methods: {', '.join(map(repr, unknown))} unknown; choose from {', '.join(sorted(known))}."
        )
    return {name: suite.methods.get(name, {}) for name in names}


def score_methods(
    suite: Suite,
    sets: FeatureSuite,
    methods: Mapping[str, Mapping[str, Any]],
    on_done: Callable[[str], None] = lambda name: None,
) -> dict[str, Scored]:
    """Fit each method on the training features and score the other sets with it; one that fails keeps its place."""
    scored = {}
    for name, params in methods.items():
        try:
            scored[name] = _scored(suite, sets, name, dict(params))
        except (ValueError, TypeError, ArithmeticError, MemoryError, ImportError) as error:
            scored[name] = Scored(params=dict(params), error=str(error) or type(error).__name__)
        on_done(name)
    return scored


def _scored(suite: Suite, sets: FeatureSuite, name: str, params: dict[str, Any]) -> Scored:
    params = method_params(name) | params
    if name in IMAGE_METHODS:
        if name not in sets.scores:
            reason = "needs images: it moves the input, which features do not hold; run with --data"
            return Scored(params=params, error=reason)
        return Scored(
            {key: np.asarray(scores) for key, scores in sets.scores[name].items()}, params
        )
    cls = detector_class(name)
    if wants_head(cls) and sets.head is None:
        return Scored(params=params, error="needs a head: give head.weight.npy and head.bias.npy")
    if params.get("k") == "grid":
        grid, seed = suite.protocol.knn_grid, suite.protocol.seed
        params["k"], chosen_by = choose_k(sets.train, sets.train_labels, grid, seed)
        params["k_grid"] = {str(k): auroc for k, auroc in chosen_by.items()}
    detector = made(name, params, sets)
    detector.fit(sets.train, sets.train_labels)
    inputs = {"test": sets.test, **sets.ood}
    if sets.calibration is not None:
        inputs["calibration"] = sets.calibration
    return Scored(
        {key: np.asarray(detector.score_samples(Z)) for key, Z in inputs.items()}, _plain(params)
    )


def made(name: str, params: Mapping[str, Any], sets: FeatureSuite) -> Detector:
    """Make an unfitted detector with the suite's head where it needs one."""
    cls = detector_class(name)
    given = {key: value for key, value in params.items() if key != "k_grid"}
    return cls(head=sets.head, **given) if wants_head(cls) else cls(**given)


def _plain(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters as JSON types; what is none of these (detectors inside an ensemble) as text."""
    kinds = (str, int, float, bool, dict, type(None))
    return {key: value if isinstance(value, kinds) else str(value) for key, value in params.items()}
