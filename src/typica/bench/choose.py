"""Choose a detector with no out-of-distribution data at all: each class in turn plays the unknown.

For every class k the detectors are fitted on the training rows of the other classes, with class k's logit taken out
of the head, and asked to tell held-out rows of the other classes from rows of class k. A detector's merit is its mean
AUROC over the classes; how sure the choice is comes from resampling the classes. Where pictures are there, corrupted
and mixed ones play the unknown too, against detectors fitted on all classes; both kinds then count one half.

What this cannot see: the network itself was trained on class k, so its features hold class k apart better than they
would hold a true unknown. AUROCs come out too high for all detectors, and those that profit from such features more
than the rest. Read it as a ranking, not as a forecast.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from typica.bench.run import Comparison, compare
from typica.detectors import Detector
from typica.errors import InputError
from typica.head import Head

RESAMPLES = 2000


@dataclass(frozen=True)
class Choice:
    """Which detector is best on classes left out, and how sure that is.

    auroc: {detector: {class: AUROC with that class left out}}; certainty: {detector: share of resampled sets of
    classes, and of near sets, on which it has the best mean}; failed: {detector: why it could not take part}; near:
    {detector: {set: AUROC against held-out inputs}}, empty where there were none.
    """

    auroc: Mapping[str, Mapping[Any, float]]
    certainty: Mapping[str, float]
    failed: Mapping[str, str]
    near: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @property
    def means(self) -> dict[str, float]:
        """The mean AUROC of each detector, best first; classes left out and near sets weigh the same."""
        kinds = [self.auroc, self.near] if self.near else [self.auroc]
        means = {name: float(np.mean([np.mean(list(kind[name].values())) for kind in kinds])) for name in self.auroc}
        return dict(sorted(means.items(), key=lambda item: -item[1]))

    @property
    def best(self) -> str:
        """The detector with the largest mean AUROC."""
        return next(iter(self.means))

    def to_dict(self) -> dict[str, Any]:
        """Return the choice as plain JSON types."""
        return {
            "best": self.best,
            "certainty": dict(self.certainty),
            "mean_auroc": self.means,
            "auroc": {name: {str(k): v for k, v in by.items()} for name, by in self.auroc.items()},
            "near": {name: dict(by) for name, by in self.near.items()},
            "failed": dict(self.failed),
        }


def leave_classes_out(
    detectors: Mapping[str, Detector],
    train: NDArray[Any],
    labels: NDArray[Any],
    held_out: NDArray[Any],
    held_out_labels: NDArray[Any],
    *,
    near: Mapping[str, NDArray[Any]] | None = None,
    seed: int = 0,
    on_done: Callable[[str], None] = lambda name: None,
) -> Choice:
    """Compare detectors with each class in turn as the unknown; see the module for what that can tell.

    `detectors` are unfitted and stay so; their heads, where they have one, must name the labels' classes. near:
    features of corrupted or mixed inputs by name. `on_done` is called with each class that is through.
    """
    classes = np.unique(labels)
    if len(classes) < 3:
        raise InputError(f"choose: {len(classes)} classes; at least 3 are needed to leave one out.")
    absent = np.setdiff1d(classes, held_out_labels)
    if len(absent):
        raise InputError(f"choose: class {absent[0]} has no held-out rows; hold some of every class out.")
    rounds = {}
    for left_out in classes.tolist():
        kept, known = labels != left_out, held_out_labels != left_out
        made = {name: _without(detector, left_out) for name, detector in detectors.items()}
        unknown = {"left out": held_out[~known]}
        rounds[left_out] = compare(made, train[kept], labels[kept], held_out[known], unknown)
        on_done(str(left_out))
    made = {name: clone(detector) for name, detector in detectors.items()} if near else {}
    whole = compare(made, train, labels, held_out, near or {})
    failed = {name: row.error for table in (*rounds.values(), whole) for name, row in table.items() if row.error}
    auroc = {name: {k: _auroc(table[name]) for k, table in rounds.items()} for name in detectors if name not in failed}
    if not auroc:
        raise InputError(f"choose: every detector failed, e.g. {next(iter(failed.items()))}; see their needs.")
    found = {name: _near(whole[name]) for name in auroc} if near else {}
    return Choice(auroc, _certainty([auroc, found] if near else [auroc], seed), failed, found)


def _without(detector: Detector, left_out: Any) -> Detector:
    """Return an unfitted copy of a detector whose head, if it has one, lacks the class that is left out."""
    made: Detector = clone(detector)
    head: Head | None = getattr(made, "head", None)
    if head is not None:
        kept = head.classes != left_out
        if kept.all():
            raise InputError(f"choose: the head has no class {left_out}; name its classes as the labels are.")
        made.set_params(head=Head(head.weight[kept], head.bias[kept], head.classes[kept]))
    return made


def _auroc(row: Comparison) -> float:
    return float("nan") if row.evaluation is None else row.evaluation.average["auroc"]


def _near(row: Comparison) -> dict[str, float]:
    return {} if row.evaluation is None else {name: result.auroc for name, result in row.evaluation.ood.items()}


def _certainty(kinds: Sequence[Mapping[str, Mapping[Any, float]]], seed: int) -> dict[str, float]:
    """Return how often each detector has the best mean over unknowns drawn with replacement; ties are shared."""
    rng = np.random.default_rng(seed)
    auroc, resampled = kinds[0], []
    for kind in kinds:
        table = np.array([list(kind[name].values()) for name in auroc])
        drawn = rng.integers(table.shape[1], size=(RESAMPLES, table.shape[1]))
        resampled.append(table[:, drawn].mean(axis=2))
    means = np.mean(resampled, axis=0)
    best = np.isclose(means, means.max(axis=0), rtol=0, atol=1e-6)  # several, where no test could tell them apart
    shares = (best / best.sum(axis=0)).mean(axis=1)
    return dict(zip(auroc, shares.tolist(), strict=True))
