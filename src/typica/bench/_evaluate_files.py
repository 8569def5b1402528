"""Evaluate, compare and choose detectors straight from files of features, as the shell does."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from typica.arrays import AnyArray
from typica.bench._choice import Choice
from typica.bench._choose import leave_classes_out
from typica.bench._compare import Comparison, compare
from typica.bench._fit_files import check_head, open_inputs, say_if_one_class
from typica.bench._method_names import detectors_for, named_detectors
from typica.checks import sklearn_seed
from typica.data import (
    FeatureFile,
    Images,
    checked_rows,
    column_named,
    find_head,
    holds_images,
    open_features,
    open_images,
    read_labelled,
    read_rows,
)
from typica.detectors import Estimator, final_detector
from typica.errors import InputError, about, argument, border, counted
from typica.head import Head
from typica.labels import encode_labels
from typica.metrics import Evaluation, evaluate_many
from typica.nets import InputReader, check_no_network
from typica.progress import work
from typica.warning_filters import ignore_missing_names
from typica.written_numbers import Level

HELD_OUT = 0.2  # the share of a bank that is held out where no file is


@border
def evaluate_files(
    estimator: Estimator,
    known: str | Path,
    ood: Mapping[str, str | Path],
    *,
    alpha: Level | None = None,
    tpr: Level | None = None,
    convention: str = "first",
    bootstrap: int = 0,
    **network: Any,
) -> Evaluation:
    """Measure how well a fitted detector tells the inputs in one place from those in others.

    Parameters
    ----------
    estimator
        A fitted detector, or a Pipeline that ends in one.
    known, ood
        In-distribution inputs, and OOD sets by name: files of features, banks, or images.
    alpha, tpr, convention, bootstrap
        As `typica.evaluate` takes them.
    network
        For images: model, weights, transform, trust and settings, as `typica.nets.extract` takes
        them.
    """
    if not any(map(holds_images, (known, *ood.values()))):
        check_no_network(network, "these are features")
    reader = InputReader.of(estimator, **network)
    every = reader.sets({"": known, **ood})
    rows = every.pop("")
    sets = every
    with work("scoring", len(rows) + sum(map(len, sets.values()))), warnings.catch_warnings():
        ignore_missing_names()
        known_scores = estimator.score_samples(rows)
        scores = {name: estimator.score_samples(strange) for name, strange in sets.items()}
    return evaluate_many(
        final_detector(estimator).kind,
        known_scores,
        scores,
        alpha=alpha,
        tpr=tpr,
        convention=convention,
        bootstrap=bootstrap,
    )


@border
def compare_files(
    features: str | Path,
    known: str | Path,
    ood: Mapping[str, str | Path],
    *,
    labels: str | Path | None = None,
    head: str | Path | None = None,
    names: str | Iterable[str] = "all",
    alpha: Level | None = None,
    tpr: Level | None = None,
) -> dict[str, Comparison]:
    """Fit detectors on the features in one file and measure how they tell `known` from OOD files.

    Each detector gets a `Comparison`; that of one that fails holds its error.

    Parameters
    ----------
    features
        A file of training features, or a bank.
    known, ood
        In-distribution test features, and OOD sets by name, in files of the same kinds.
    labels
        A file of labels, or the name of a column, if `features` holds none.
    head
        A file with the last layer, if `features` has none of its own.
    names
        Names of detectors, "all" or "paper". Those that need a head and lack it are left out.
    alpha, tpr
        As `compare` takes them.
    """
    opened = open_features(features)
    wanted = f"they need {argument('head')}"
    found = find_head(head, opened)
    detectors = detectors_for(named_detectors(names), found, wanted)
    train = read_labelled(opened, labels)
    width = train.features.shape[1]
    check_head(found, head, opened, width)
    checked_rows(train.features, str(opened.path))
    if any(detector.tags.uses_labels for detector in detectors.values()):
        with about(str(opened.path)):
            encode_labels(train.labels, len(train.features))  # refuses gaps among them
    say_if_one_class(detectors.values(), train.labels)
    alike = {"origin": opened.origin, "width": width, "columns": train.names}
    rows = read_rows(known, **alike)
    sets = {name: read_rows(path, **alike) for name, path in ood.items()}
    return compare(detectors, train.features, train.labels, rows, sets, alpha=alpha, tpr=tpr)


@border
def choose_files(
    bank: str | Path,
    *,
    labels: str | Path | None = None,
    held_out: str | Path | None = None,
    head: str | Path | None = None,
    images: str | Path | Images | None = None,
    split: str | None = None,
    model: str | None = None,
    weights: str | Path | None = None,
    transform: Any = None,
    classes: Sequence[str] | None = None,
    trust: bool = False,
    names: str | Iterable[str] = "all",
    seed: int = 0,
) -> Choice:
    """Choose a detector with no OOD data, from a bank or a file of features with labels.

    Parameters
    ----------
    bank
        A bank, a file of features, or images. Images go through the network into a bank that is
        kept in Typica's home.
    labels
        A file of labels, or the name of a column, if `bank` holds none.
    held_out
        Held-out features with labels, or images; a fifth of the bank if not given.
    head
        A file with the last layer; a bank has its own.
    images
        The images that the bank was made of: corrupted and mixed ones then play the unknown too.
    split
        Which of the images are meant, if they have several splits.
    model, weights, trust
        Where the network is, if it has moved or is new, and whether a file that can run code may be
        loaded.
    transform, classes
        For images: as `typica.nets.extract` takes them.
    names
        Names of detectors, "all" or "paper". Those that need a head and lack it are left out.
    seed
        Seeds the split, the corruptions and the resampling.
    """
    sklearn_seed().check(argument("seed"), seed)
    network: dict[str, Any] = {"model": model, "weights": weights, "trust": trust}
    inputs = open_inputs(bank, split=split, transform=transform, classes=classes, **network)
    opened, held = inputs.features, inputs
    if held_out is not None:
        held = open_inputs(held_out, opened.origin, classes=classes, **network)
    every = _labelled(opened, labels)
    own = _own_head(head, opened, every)
    detectors = detectors_for(named_detectors(names), own, "they need a head for these classes")
    if held_out is None:
        parts = _split(opened, every, seed)
    else:
        parts = _with_held_out(opened, every, held.features, labels)
    if images is None:
        to_change = None if inputs.images is None else held.images
    else:
        to_change = images if isinstance(images, Images) else open_images(images, split=split)
    near = {} if to_change is None else _near(parts, to_change, seed=seed, **network)
    return leave_classes_out(
        detectors,
        parts.train.features,
        parts.train.labels,
        parts.known.features,
        parts.known.labels,
        near=near,
        seed=seed,
    )


class _LabelledRows(NamedTuple):
    """The features and labels of a file of which `typica choose` leaves classes out."""

    features: AnyArray
    labels: AnyArray
    names: Sequence[str] | None = None

    def rows(self, kept: NDArray[np.int64]) -> _LabelledRows:
        """Return some of the rows of a file for `typica choose`."""
        return _LabelledRows(self.features[kept], self.labels[kept], self.names)


def _labelled(
    opened: FeatureFile, labels: str | Path | None, width: int | None = None, **alike: Any
) -> _LabelledRows:
    path, table = opened.path, read_labelled(opened, labels, **alike)
    features, targets = table.features, table.labels
    if targets is None:
        raise InputError(
            f"{path}: holds no labels; pass {argument('labels')}, "
            "or a file with features and labels."
        )
    with about(str(path)):
        encode_labels(targets, len(features))  # refuses labels that do not match the rows
    checked_rows(features, str(path), width)
    return _LabelledRows(features, targets, table.names)


class _Parts(NamedTuple):
    """What `typica choose` fits on, and what is held out: these rows of this file."""

    train: _LabelledRows
    known: _LabelledRows
    file: FeatureFile
    rows: NDArray[np.int64]


def _with_held_out(
    opened: FeatureFile, every: _LabelledRows, apart: FeatureFile, labels: str | Path | None
) -> _Parts:
    """Return all rows to fit on, and what is held out in a file of its own."""
    column = column_named(opened, labels)
    width = every.features.shape[1]
    known = _labelled(apart, column, width, origin=opened.origin, columns=every.names)
    return _Parts(every, known, apart, np.arange(len(known.features)))


def _split(opened: FeatureFile, every: _LabelledRows, seed: int) -> _Parts:
    """Return the rows of a file in two parts: a fifth of every class of several is held out."""
    classes, codes, counts = np.unique(every.labels, return_inverse=True, return_counts=True)
    alone = counts[codes] == 1
    several = np.flatnonzero(~alone)
    if math.ceil(HELD_OUT * len(several)) < max(1, int(np.sum(counts > 1))):
        raise _too_few(classes[counts.argmin()], int(counts.min()))
    kept, rows = train_test_split(
        several, test_size=HELD_OUT, stratify=every.labels[several], random_state=seed
    )
    kept = np.concatenate([kept, np.flatnonzero(alone)])
    return _Parts(every.rows(kept), every.rows(rows), opened, rows)


def _too_few(label: Any, rows: int) -> InputError:
    return InputError(
        f"class {label} has {counted(rows, 'row')}, too few to hold a fifth out; "
        f"pass {argument('held_out', 'FILE')}, or more rows."
    )


def _near(parts: _Parts, images: Images, **options: Any) -> dict[str, NDArray[np.float32]]:
    """Return the features of corrupted and mixed versions of the images that are held out."""
    from typica.bench._changed_images import near_features  # noqa: PLC0415 (needs torch, which is an extra)

    bank = parts.file.bank
    if bank is None:
        raise InputError(
            f"{argument('images')}: {parts.file.path} is not a bank of `typica extract`; "
            "pass one, because its network is needed."
        )
    with work("corrupting and mixing", None, unit="images/s"):
        return near_features(bank, images, parts.rows, **options)


def _own_head(head: str | Path | None, bank: FeatureFile, every: _LabelledRows) -> Head | None:
    """Return the head; a bank's own only if it knows the classes, so that logits can be masked."""
    found = find_head(head, bank)
    check_head(found, head, bank, every.features.shape[1])
    if head is None and found is not None and not np.isin(every.labels, found.classes).all():
        return None
    return found
