"""Choose a detector with no out-of-distribution data at all: known rows play the unknown.

Unknowns of several kinds are made of what is known (`typica.bench._unknowns`): classes that are
left out of the fit and of the head, alone and with their neighbours; and, against detectors fitted
on all classes, rows whose features are swapped with those of another class, random rows from the
normal distribution of all known rows, and, if there are images, corrupted, rotated and mixed ones.
A detector's merit is its mean AUROC against held-out rows; all kinds weigh the same, the two that
leave classes out as one. How sure the choice is comes from resampling at two levels, the unknowns
and the rows of both sides (`typica.bench._resampling`): other classes might rank the detectors
differently, and so might other images of the same classes. If the leader is not clearly ahead of
the default (Quorum, else CTM), the default is recommended (`typica.bench._choice`).

However much is known, a few thousand rows are enough to choose by: at most 16 fits per detector, of
at most 4,000 rows (20 of each class, where classes are many).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from typica.arrays import AnyArray, Array, as_features, to_numpy
from typica.bench._choice import (
    Aurocs,
    Choice,
    certainties,
    kind_weights,
    mean_aurocs,
    shares_ahead,
)
from typica.bench._compare import Comparison, compare
from typica.bench._resampling import (
    RESAMPLES,
    Counts,
    Floats,
    redrawn_aurocs,
    row_draws,
    unknown_draws,
)
from typica.bench._runs import Scores
from typica.bench._unknowns import (
    FEWEST_ALONE,
    KnownSplit,
    groups,
    left_out_name,
    parts,
    redrawn_rows,
    swapped_rows,
)
from typica.checks import count
from typica.detectors import Detector
from typica.errors import InputError, InputWarning, LogitsWarning, border, counted, listed, warn
from typica.head import Head
from typica.progress import steps


@border
def leave_classes_out(
    detectors: Mapping[str, Detector],
    train: Array,
    labels: Array,
    held_out: Array,
    held_out_labels: Array,
    *,
    near: Mapping[str, Array] | None = None,
    seed: int = 0,
) -> Choice:
    """Choose a detector by unknowns made of known rows.

    Parameters
    ----------
    detectors
        Detectors by name; they stay unfitted. A head must name the same classes as the labels.
    train, labels
        Training features, and one label per row.
    held_out, held_out_labels
        The same for held-out rows. Classes without any are left out, with a warning. With only two
        classes none can play the unknown, as one alone would be left.
    near
        Features of corrupted or mixed inputs, by name.
    seed
        Seeds what is drawn at random.
    """
    if not detectors:
        raise InputError(
            "no detector to compare; name some, and pass a head for those that need one."
        )
    count(0).check("seed", seed)
    rng = np.random.default_rng(seed)
    every = KnownSplit.of(train, labels, held_out, held_out_labels)
    every.check()
    absent = every.not_held_out()
    if absent:
        warn(
            f"{counted(len(absent), 'class')} without held-out rows ({listed(absent)}) took no "
            "part; hold out some rows of every class.",
            InputWarning,
        )
        every = every.without(absent)
        detectors = {name: _without(each, absent) for name, each in detectors.items()}
    changed = {name: to_numpy(as_features(rows)) for name, rows in (near or {}).items()}
    draws = _Draws(every.bounded(rng), rng)
    planned = [*draws.without_classes(), draws.with_all_classes(changed)]
    tally = _Tally(detectors)
    with steps("leaving classes out", len(planned)) as done:
        for each in planned:
            tally.add(each, _compared(each, detectors, draws.known), draws.of_known(each))
            done(", ".join(map(str, each.left_out)))
    return tally.choice()


@dataclass(frozen=True)
class _Unknown:
    """Rows that play the unknown, with draws of them and the set's weight on every resample."""

    kind: str
    key: Any
    features: AnyArray
    draws: Counts
    weights: Floats

    @property
    def name(self) -> str:
        """What distinguishes it from the others of its round."""
        return f"{self.kind} {self.key}"


@dataclass(frozen=True)
class _Round:
    """One fit of each detector: the classes it does not know, and the unknowns it meets."""

    left_out: Sequence[Any]
    unknowns: Sequence[_Unknown]


class _Draws:
    """What is drawn again for every resample: held-out rows, classes, and sets of changed images.

    A class that is drawn counts wherever it plays a part: alone, in its group, and swapped.
    """

    def __init__(self, known: KnownSplit, rng: np.random.Generator) -> None:
        self.known = known
        self.rng = rng
        self.rows = row_draws(known.held_out_labels, rng)
        self.weights = unknown_draws(len(known.classes), rng)

    def without_classes(self) -> Iterator[_Round]:
        """Yield the rounds in which classes are left out: each alone, then with its neighbours."""
        if len(self.known.classes) < FEWEST_ALONE:
            return
        held_out = self.known.held_out
        for left_out in parts(self.known.classes, self.rng):
            unknowns = [self._of("classes", label, [label], held_out) for label in left_out]
            yield _Round(left_out, unknowns)
        for left_out in groups(self.known):
            unknown = self._of("neighbours", left_out_name(left_out), left_out, held_out)
            yield _Round(left_out, [unknown])

    def with_all_classes(self, near: Mapping[str, AnyArray]) -> _Round:
        """Return the round of rows that were made strange.

        Row i of near sets of one size is a version of the same image in each: they are drawn
        together.
        """
        swapped, classes = swapped_rows(self.known, self.rng), self.known.classes.tolist()
        unknowns = [self._of("swapped", label, [label], swapped) for label in classes]
        unknowns.append(self._redrawn())
        weights = unknown_draws(max(len(near), 1), self.rng)
        sizes = sorted({len(features) for features in near.values()})
        by_size = {size: row_draws(np.zeros(size), self.rng) for size in sizes}
        for place, (name, features) in enumerate(near.items()):
            drawn = by_size[len(features)]
            unknowns.append(_Unknown("images", name, features, drawn, weights[:, place]))
        return _Round([], unknowns)

    def _redrawn(self) -> _Unknown:
        """Return the random rows: they have no class, so all of them count in every draw."""
        rows = redrawn_rows(self.known, self.rng)
        draws = row_draws(np.zeros(len(rows)), self.rng)
        return _Unknown("redrawn", "all", rows, draws, np.ones(len(draws)))

    def of_known(self, each: _Round) -> Counts:
        """Return the draws of the held-out rows that are known in a round."""
        return self.rows[:, ~np.isin(self.known.held_out_labels, each.left_out)]

    def _of(self, kind: str, key: Any, labels: Sequence[Any], features: AnyArray) -> _Unknown:
        """Return what rows of these classes, or made of them, are as unknowns."""
        places = np.isin(self.known.held_out_labels, labels)
        weights = self.weights[:, np.isin(self.known.classes, labels)].mean(axis=1)
        return _Unknown(kind, key, features[places], self.rows[:, places], weights)


def _compared(
    each: _Round, detectors: Mapping[str, Detector], known: KnownSplit
) -> dict[str, Comparison]:
    """Compare detectors that do not know some classes on the unknowns of a round."""
    kept = known.without(each.left_out)
    with warnings.catch_warnings():
        # Classes may be small in this round only; the warning about logits is needed once.
        warnings.simplefilter("ignore", InputWarning)
        warnings.simplefilter("once", LogitsWarning)
        return compare(
            {name: _without(detector, each.left_out) for name, detector in detectors.items()},
            kept.train,
            kept.labels,
            kept.held_out,
            {unknown.name: unknown.features for unknown in each.unknowns},
            keep_scores=True,
        )


class _Tally:
    """What the rounds leave behind: AUROCs, sums on every resample, and who failed."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = list(names)
        self.aurocs: dict[str, dict[str, dict[Any, float]]] = {}
        self.sums: dict[str, dict[str, Floats]] = {}
        self.weights: dict[str, Floats] = {}
        self.failed: dict[str, str] = {}

    def add(self, each: _Round, table: Mapping[str, Comparison], known: Counts) -> None:
        """Add a round. known: draws of the held-out rows that were known in it."""
        scores: dict[str, Scores] = {}
        for name, row in table.items():
            if row.scores is None:
                self.failed[name] = row.error
            else:
                scores[name] = row.scores
        for unknown in each.unknowns:
            self._begin(unknown.kind)
            self.weights[unknown.kind] += unknown.weights
            for name in scores:
                found = table[name].evaluation
                if found is not None:
                    auroc = found.ood[unknown.name].auroc
                    self.aurocs[unknown.kind][name][unknown.key] = auroc
            if scores:
                self._add_resampled(unknown, scores, known)

    def _begin(self, kind: str) -> None:
        if kind not in self.weights:
            self.weights[kind] = np.zeros(RESAMPLES)
            self.aurocs[kind] = {name: {} for name in self.names}
            self.sums[kind] = {name: np.zeros(RESAMPLES) for name in self.names}

    def _add_resampled(
        self, unknown: _Unknown, scores: Mapping[str, Scores], known: Counts
    ) -> None:
        of_known = [found.test for found in scores.values()]
        of_unknown = [found.ood[unknown.name] for found in scores.values()]
        redrawn = redrawn_aurocs(of_known, of_unknown, known, unknown.draws)
        for name, column in zip(scores, redrawn.T, strict=True):
            self.sums[unknown.kind][name] += unknown.weights * column

    def choice(self) -> Choice:
        """Return what the rounds amount to, of the detectors that took part in all of them."""
        names = [name for name in self.names if name not in self.failed]
        if not names:
            name, why = next(iter(self.failed.items()))
            raise InputError(f"every detector failed, e.g. {name}: {why}")
        kinds = {kind: self._aurocs_of(kind, names) for kind in self.aurocs}
        means = np.stack([self._resampled(name) for name in names], axis=1)
        leader = next(iter(mean_aurocs(kinds)))
        return Choice(
            auroc=kinds.get("classes", {}),
            certainty=certainties(names, means),
            failed=self.failed,
            near=kinds.get("images", {}),
            ahead=shares_ahead(names, means, leader),
            neighbours=kinds.get("neighbours", {}),
            swapped=kinds["swapped"],
            redrawn=kinds["redrawn"],
        )

    def _aurocs_of(self, kind: str, names: Sequence[str]) -> Aurocs:
        return {name: self.aurocs[kind][name] for name in names}

    def _resampled(self, name: str) -> Floats:
        """Return a detector's mean on every resample; kinds weigh as `kind_weights` says."""
        mean = np.zeros(RESAMPLES)
        for kind, weight in kind_weights(list(self.sums)).items():
            mean += weight * self.sums[kind][name] / self.weights[kind]
        return mean


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
