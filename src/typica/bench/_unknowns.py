"""Unknowns made of known rows, to choose a detector with: classes left out, rows mixed or redrawn.

*Classes*: each class is left out once. That is often easy: the network was trained on it and holds
it apart. *Neighbours*: classes whose means point the same way are left out together, so that none
of them stays to be the nearest. *Swapped*: a row takes each of its features either from itself or
from a row of a neighbouring class, at random; every feature has been seen, but not together. Not
the mean of two such rows, which would only test who sees a tie of two classes. *Redrawn*: random
rows with the mean and the covariance of all known rows, and of no class: any two features go
together as they always do, so only a detector that knows where the known rows lie can tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray, Array, as_features, to_numpy
from typica.errors import InputError, about, counted
from typica.labels import as_labels, encode_labels
from typica.linalg import unit_rows

TRAIN_ROWS = 4000  # to fit on, where there are more
TRAIN_ROWS_OF_CLASS = 20  # but at least this many of each class
HELD_OUT_ROWS = 1500
HELD_OUT_ROWS_OF_CLASS = 5
FITS = 10  # at most, with single classes left out: where classes are more, several at a time
GROUPS = 5  # of neighbouring classes, about
FEWEST_ALONE = 3  # classes of which each is left out alone: of two only one would stay
FEWEST = 6  # classes of which groups are left out; of fewer, too few would stay
NEAREST = 3  # classes from which a row's partner is drawn
NAMED = 3  # classes in the name of a group
REDRAWN_ROWS = 1500
BLOCK = 1000  # held-out rows whose shares in redrawn ones are held at a time

Places = NDArray[np.int64]


@dataclass(frozen=True)
class KnownSplit:
    """Training and held-out features with their labels."""

    train: AnyArray
    labels: AnyArray
    held_out: AnyArray
    held_out_labels: AnyArray

    @classmethod
    def of(cls, train: Array, labels: Array, held_out: Array, held_out_labels: Array) -> KnownSplit:
        """Return the split of arrays of any backend, or of lists; refuse what does not fit."""
        with about("training rows"):
            known, of_known = _labelled(train, labels)
        with about("held-out rows"):
            rows, of_rows = _labelled(held_out, held_out_labels)
        if rows.shape[1] != known.shape[1]:
            raise InputError(
                f"held-out rows have {rows.shape[1]} features, the training rows "
                f"{known.shape[1]}; take one layer."
            )
        return cls(known, of_known, rows, of_rows)

    @property
    def classes(self) -> AnyArray:
        """The classes of the training rows, sorted."""
        return np.unique(self.labels)

    def bounded(self, rng: np.random.Generator) -> KnownSplit:
        """Return no more rows than it takes to choose, each class with its share."""
        train = some_rows(self.labels, TRAIN_ROWS, TRAIN_ROWS_OF_CLASS, rng)
        held_out = some_rows(self.held_out_labels, HELD_OUT_ROWS, HELD_OUT_ROWS_OF_CLASS, rng)
        return KnownSplit(
            self.train[train],
            self.labels[train],
            self.held_out[held_out],
            self.held_out_labels[held_out],
        )

    def without(self, left_out: Sequence[Any]) -> KnownSplit:
        """Return the rows of the classes that are not left out."""
        train = ~np.isin(self.labels, left_out)
        held_out = ~np.isin(self.held_out_labels, left_out)
        return KnownSplit(
            self.train[train],
            self.labels[train],
            self.held_out[held_out],
            self.held_out_labels[held_out],
        )

    def check(self) -> None:
        """Raise where held-out rows are of other classes than the training rows."""
        strange = np.setdiff1d(self.held_out_labels, self.classes)
        if len(strange):
            raise InputError(
                f"held-out rows are of class {strange[0]}, which the training rows lack; "
                "leave them out, or name the classes alike."
            )

    def not_held_out(self) -> list[Any]:
        """Return the classes without held-out rows; raise if fewer than two others are left."""
        absent: list[Any] = np.setdiff1d(self.classes, self.held_out_labels).tolist()
        left = len(self.classes) - len(absent)
        if left < 2:
            found = counted(left, "class")
            raise InputError(f"{found} with held-out rows; at least 2 are needed to swap features.")
        return absent


def _labelled(features: Array, labels: Array) -> tuple[AnyArray, AnyArray]:
    """Return features and their labels, to leave classes out of, as NumPy arrays."""
    rows, targets = to_numpy(as_features(features)), as_labels(labels)
    encode_labels(targets, len(rows))  # refuses labels that do not match the rows
    return rows, targets


def some_rows(labels: AnyArray, most: int, most_of_class: int, rng: np.random.Generator) -> Places:
    """Return the places of at most about `most` rows, in order, each class with its share.

    Of each class at least `most_of_class` stay, or all.

    >>> labels = np.repeat(["a", "b"], [90, 10])
    >>> kept = some_rows(labels, 20, 5, np.random.default_rng(0))
    >>> np.unique(labels[kept], return_counts=True)[1]
    array([18,  5])
    """
    if len(labels) <= most:
        return np.arange(len(labels))
    kept = []
    for label in np.unique(labels):
        places = np.flatnonzero(labels == label)
        share = max(round(most * len(places) / len(labels)), most_of_class)
        kept.append(rng.permutation(places)[:share])
    return np.sort(np.concatenate(kept))


def parts(classes: AnyArray, rng: np.random.Generator) -> list[list[Any]]:
    """Return which classes are left out in one fit, though each counts alone: one each, if few.

    >>> parts(np.array(["a", "b", "c"]), np.random.default_rng(0))
    [['a'], ['b'], ['c']]
    """
    if len(classes) <= FITS:
        return [[label] for label in classes.tolist()]
    drawn = np.array_split(rng.permutation(len(classes)), FITS)
    return [classes[np.sort(part)].tolist() for part in drawn]


def groups(known: KnownSplit) -> list[list[Any]]:
    """Return the groups of neighbouring classes; none where too few classes would stay."""
    if len(known.classes) < FEWEST:
        return []
    return [known.classes[group].tolist() for group in neighbours(class_means(known))]


def neighbours(means: AnyArray) -> list[list[int]]:
    """Divide the classes with these means (C, m) into groups whose means point the same way.

    >>> means = np.array([[1.0, 0.0], [0.0, 1.0], [0.9, 0.1], [0.1, 0.9]])
    >>> neighbours(means)
    [[0, 2], [1, 3]]
    """
    centred = unit_rows((means - means.mean(axis=0)).astype(np.float64))
    likeness = centred @ centred.T
    size = max(2, -(-len(means) // GROUPS))
    left = list(range(len(means)))
    groups = []
    while len(left) >= 2 * size:
        # The most distant one first, or it would be left over with classes unlike it.
        apart = min(left, key=lambda row: likeness[row, left].sum())
        nearest = sorted(left, key=lambda row: -likeness[apart, row])
        groups.append(sorted(nearest[:size]))
        left = sorted(nearest[size:])
    return [*groups, left]


def class_means(known: KnownSplit) -> AnyArray:
    """Return the mean training row of each class (C, m), in the order of `classes`."""
    means = [known.train[known.labels == label].mean(axis=0) for label in known.classes]
    return np.stack(means).astype(np.float64)


def swapped_rows(known: KnownSplit, rng: np.random.Generator) -> AnyArray:
    """Return as many unknowns as held-out rows: each with some features of a neighbouring class."""
    partners = known.held_out[partner_rows(known, rng)]
    theirs = rng.random(partners.shape) < 0.5
    return np.where(theirs, partners, known.held_out)


def partner_rows(known: KnownSplit, rng: np.random.Generator) -> Places:
    """Return, for each held-out row, the place of a row of a class near its own."""
    means = class_means(known)
    squares = (means * means).sum(axis=1)
    distances = squares[:, None] + squares - 2 * means @ means.T
    np.fill_diagonal(distances, np.inf)
    nearest = np.argsort(distances, axis=1)[:, : min(NEAREST, len(means) - 1)]
    own = np.searchsorted(known.classes, known.held_out_labels)
    drawn = nearest[own, rng.integers(nearest.shape[1], size=len(own))]
    partners = np.empty(len(own), dtype=np.int64)
    for place in np.unique(drawn):
        wanted = np.flatnonzero(drawn == place)
        partners[wanted] = rng.choice(np.flatnonzero(own == place), size=len(wanted))
    return partners


def redrawn_rows(known: KnownSplit, rng: np.random.Generator) -> AnyArray:
    """Return random rows from the normal distribution of all held-out rows.

    Each is the mean row plus the departures of all from it, in random shares. If no held-out row
    has a feature below zero, neither have these.
    """
    rows = known.held_out.astype(np.float64)
    mean = rows.mean(axis=0)
    drawn = np.zeros((REDRAWN_ROWS, rows.shape[1]))
    for start in range(0, len(rows), BLOCK):
        departures = rows[start : start + BLOCK] - mean
        drawn += rng.standard_normal((len(drawn), len(departures))) @ departures
    drawn = mean + drawn / np.sqrt(len(rows))
    if rows.min() >= 0:
        drawn = np.maximum(drawn, 0)
    return np.asarray(drawn, dtype=np.result_type(known.held_out, np.float32))


def left_out_name(classes: Sequence[Any]) -> str:
    """Return the name of the unknowns that `choose` makes of classes left out together.

    >>> left_out_name([3, 5]), left_out_name(list("abcdef"))
    ('3+5', 'a+b+c+3 more')
    """
    shown = [str(label) for label in classes[:NAMED]]
    if len(classes) > NAMED:
        shown.append(f"{len(classes) - NAMED} more")
    return "+".join(shown)
