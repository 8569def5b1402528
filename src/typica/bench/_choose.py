"""Choose a detector with no out-of-distribution data at all: known rows play the unknown.

Unknowns of several kinds are made of what is known (`typica.bench._unknowns`): classes that are
left out of the fit and of the head, alone and with their neighbours, and rows whose features are
swapped with those of another class; where images are there, corrupted, rotated and mixed ones too,
against detectors fitted on all classes. A detector's merit is its mean AUROC against held-out rows;
all kinds weigh the same. How sure the choice is comes from resampling at two levels, the unknowns
and the rows of both sides (`typica.bench._resampling`): other classes might rank the detectors
otherwise, and so might other images of the same classes. Where the leader is not clearly ahead of
the default (Quorum, else CTM), the default is recommended (`typica.bench._choice`).

However much is known, a few thousand rows are enough to choose by: at most 16 fits a detector, of
at most 4,000 rows (20 of each class, where classes are many).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from typica.arrays import AnyArray
from typica.bench._choice import Aurocs, Choice, certainties, mean_aurocs, shares_ahead
from typica.bench._engine import Comparison, Scores, compare
from typica.bench._resampling import (
    RESAMPLES,
    Counts,
    Floats,
    redrawn_aurocs,
    row_draws,
    unknown_draws,
)
from typica.bench._unknowns import Known, Round, rounds, swapped_rows
from typica.detectors import Detector
from typica.errors import InputError, border
from typica.head import Head
from typica.progress import steps

Drawn = tuple[Counts, Floats]  # draws of the rows of a set of unknowns, and its weights


@border
def leave_classes_out(
    detectors: Mapping[str, Detector],
    train: AnyArray,
    labels: AnyArray,
    held_out: AnyArray,
    held_out_labels: AnyArray,
    *,
    near: Mapping[str, AnyArray] | None = None,
    seed: int = 0,
) -> Choice:
    """Compare detectors on unknowns made of known rows; see the module for what it tells.

    `detectors` are unfitted and stay so; their heads, where they have one, must name the labels'
    classes. near: features of corrupted or mixed inputs by name.
    """
    rng = np.random.default_rng(seed)
    every = Known(train, labels, held_out, held_out_labels)
    every.check()
    known = every.bounded(rng)
    planned = list(rounds(known, rng))
    strange = {"swapped": {"swapped": swapped_rows(known, rng)}}
    if near:
        strange["near"] = dict(near)
    rows = row_draws(known.held_out_labels, rng)
    tally = _Tally(detectors, [*dict.fromkeys(each.kind for each in planned), *strange])
    weights = _weights(planned, rng)
    with steps("leaving classes out", len(planned) + 1) as done:
        for each in planned:
            table = _without_classes(each, detectors, known)
            inside = ~np.isin(known.held_out_labels, each.left_out)
            drawn = {}
            for key, places in each.unknown.items():
                drawn[key] = (rows[:, places], weights[each.kind, key])
            tally.add(each.kind, table, rows[:, inside], drawn)
            done(", ".join(map(str, each.left_out)))
        table = _with_all_classes(detectors, known, strange)
        for kind, sets in strange.items():
            tally.add(kind, table, rows, _draws_of(sets, rows, rng))
        done("all known")
    return tally.choice()


def _weights(planned: Sequence[Round], rng: np.random.Generator) -> dict[tuple[str, Any], Floats]:
    """Return the weight of each unknown in the resampled means of its kind, (resamples, 1)."""
    keys: dict[str, list[Any]] = {}
    for each in planned:
        keys.setdefault(each.kind, []).extend(each.unknown)
    weights = {}
    for kind, of_kind in keys.items():
        drawn = unknown_draws(len(of_kind), rng)
        for place, key in enumerate(of_kind):
            weights[kind, key] = drawn[:, [place]]
    return weights


def _without_classes(
    each: Round, detectors: Mapping[str, Detector], known: Known
) -> dict[str, Comparison]:
    """Compare detectors that do not know some classes, which play the unknown."""
    kept = known.without(each.left_out)
    made = {name: _without(detector, each.left_out) for name, detector in detectors.items()}
    unknown = {key: known.held_out[places] for key, places in each.unknown.items()}
    return compare(made, kept.train, kept.labels, kept.held_out, unknown, keep_scores=True)


def _with_all_classes(
    detectors: Mapping[str, Detector], known: Known, strange: Mapping[str, Mapping[str, AnyArray]]
) -> dict[str, Comparison]:
    """Compare detectors that know all classes, on rows that were made strange."""
    made = {name: clone(detector) for name, detector in detectors.items()}
    unknown: dict[str, AnyArray] = {}
    for sets in strange.values():
        unknown |= sets
    return compare(made, known.train, known.labels, known.held_out, unknown, keep_scores=True)


def _draws_of(
    sets: Mapping[str, AnyArray], rows: Counts, rng: np.random.Generator
) -> dict[str, Drawn]:
    """Return the draws of the rows of each set, and its weights.

    Row i of sets of one size is a version of the same row in each: they are drawn together. So are
    those that are as many as the held-out rows, and these.
    """
    weights = unknown_draws(len(sets), rng)
    by_size = {rows.shape[1]: rows}
    draws = {}
    for place, (name, features) in enumerate(sets.items()):
        size = len(features)
        if size not in by_size:
            by_size[size] = row_draws(np.zeros(size), rng)
        draws[name] = (by_size[size], weights[:, [place]])
    return draws


class _Tally:
    """What the rounds leave behind: AUROCs, the mean on every resample, and who failed."""

    def __init__(self, names: Iterable[str], kinds: Sequence[str]) -> None:
        self.resampled = {name: np.zeros(RESAMPLES) for name in names}
        self.aurocs: dict[str, dict[str, dict[Any, float]]] = {}
        for kind in kinds:
            self.aurocs[kind] = {name: {} for name in self.resampled}
        self.failed: dict[str, str] = {}

    def add(
        self,
        kind: str,
        table: Mapping[str, Comparison],
        known: Counts,
        unknown: Mapping[Any, Drawn],
    ) -> None:
        """Add a round to the resampled means and to the AUROCs of this kind.

        known: draws of the held-out rows. unknown: draws and weights of each set of unknown rows.
        """
        scores: dict[str, Scores] = {}
        for name, row in table.items():
            if row.evaluation is None or row.scores is None:
                self.failed[name] = row.error
                continue
            scores[name] = row.scores
            found = row.evaluation.ood
            self.aurocs[kind][name] |= {key: found[key].auroc for key in unknown}
        if not scores:
            return
        of_known = [found.test for found in scores.values()]
        for key, (draws, weights) in unknown.items():
            of_unknown = [found.ood[key] for found in scores.values()]
            redrawn = weights * redrawn_aurocs(of_known, of_unknown, known, draws)
            for name, column in zip(scores, redrawn.T, strict=True):
                self.resampled[name] += column / len(self.aurocs)

    def choice(self) -> Choice:
        """Return what the rounds amount to, of the detectors that took part in all of them."""
        names = [name for name in self.resampled if name not in self.failed]
        if not names:
            example = next(iter(self.failed.items()))
            raise InputError(f"every detector failed, e.g. {example}; see their needs.")
        kinds = {kind: self._of(kind, names) for kind in self.aurocs}
        means = np.stack([self.resampled[name] for name in names], axis=1)
        leader = next(iter(mean_aurocs(list(kinds.values()))))
        return Choice(
            auroc=kinds["classes"],
            certainty=certainties(names, means),
            failed=self.failed,
            near=kinds.get("near", {}),
            ahead=shares_ahead(names, means, leader),
            neighbours=kinds.get("neighbours", {}),
            swapped=kinds["swapped"],
        )

    def _of(self, kind: str, names: Sequence[str]) -> Aurocs:
        return {name: self.aurocs[kind][name] for name in names}


def _without(detector: Detector, left_out: Sequence[Any]) -> Detector:
    """Return an unfitted copy of a detector whose head, if it has one, lacks some classes."""
    made: Detector = clone(detector)
    head: Head | None = getattr(made, "head", None)
    if head is None:
        return made
    classes = head.classes.tolist()
    for label in left_out:
        if label not in classes:
            raise InputError(f"the head has no class {label}; name its classes as the labels are.")
    kept = np.array([label not in left_out for label in classes])
    made.set_params(head=Head(head.weight[kept], head.bias[kept], head.classes[kept]))
    return made
