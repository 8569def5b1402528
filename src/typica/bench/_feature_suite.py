"""What every suite of features shares: one network's features on known and on foreign data."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from typica.arrays import AnyArray, Array
from typica.errors import InputError, border
from typica.head import Head

RESERVED = frozenset({"train", "test", "calibration", "average", "common", "means"})


@dataclass(frozen=True, eq=False, repr=False)
class FeatureSuite:
    """One network's penultimate features, ready for any detector.

    A detector is fitted on `train`, its threshold set on `calibration`, and judged by how it tells
    `test` from each set in `ood`. Shapes are checked when the suite is made.

    Attributes
    ----------
    name, title : str
        The name that commands take, and one line for people.
    train, calibration, test : array (n, m)
        Features of in-distribution inputs; no input is in two of them. `calibration` may be None.
    train_labels, calibration_labels, test_labels : array (n,)
        Their true classes.
    ood : mapping of str to array (n, m)
        Features of inputs that the network should not be trusted with, by set.
    near : frozenset of str
        The OOD sets that resemble the training data; the rest are `far`.
    head_weight, head_bias, classes : array (C, m), (C,), (C,)
        The network's last layer, `logits = Z @ head_weight.T + head_bias`; column j stands for
        `classes[j]`. All None where it is not known.
    accuracy : float
        Top-1 accuracy of the network on `test`, from 0 to 1; None where there is no head that
        knows the labels' classes.
    layers : mapping of str to mapping of str to array (n, m_layer)
        Features of other layers, from the first to the last, by set: "train", "test" and the names
        of `ood`.
    scores : mapping of str to mapping of str to array (n,)
        Scores that take the network and its inputs (ODIN), by method and then by set, as in
        `layers`.
    missing : mapping of str to str
        OOD sets that should be there and are not, with how to get them.
    left_out : mapping of str to list of str
        Images that could not be read and files that are not images, by set, with the reason.
    images : mapping of str to what gives (name, image) for the number of a row
        The inputs themselves, by set, where they are at hand.

    Examples
    --------
    >>> import numpy as np
    >>> z, y = np.eye(2, dtype=np.float32), np.array([0, 1])
    >>> suite = FeatureSuite(
    ...     "toy", "Two points", z, y, z, y, z, y, {"noise": -z}, frozenset(), z, y, y, 1.0
    ... )
    >>> suite
    <FeatureSuite toy: 2 train, 2 calibration, 2 test; OOD: noise 2>
    >>> suite.far
    frozenset({'noise'})
    """

    name: str
    title: str
    train: AnyArray
    train_labels: AnyArray
    calibration: Array
    calibration_labels: Array
    test: AnyArray
    test_labels: AnyArray
    ood: Mapping[str, AnyArray]
    near: frozenset[str]
    head_weight: Array
    head_bias: Array
    classes: Array
    accuracy: Any
    layers: Mapping[str, Mapping[str, AnyArray]] = field(default_factory=dict)
    scores: Mapping[str, Mapping[str, AnyArray]] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, list[str]] = field(default_factory=dict)
    images: Mapping[str, Any] = field(default_factory=dict)

    @border
    def __post_init__(self) -> None:
        splits = {split: getattr(self, split) for split in self.splits}
        inputs = {**splits, **self.ood}
        self._check_widths(inputs)
        self._check_labels(splits)
        if self.head_weight is not None:
            self._check_head()
        self._check_names()
        rows = {name: len(features) for name, features in inputs.items()}
        for layer, by_set in self.layers.items():
            self._check_sets(f"layer {layer!r}", by_set, rows, {"train", "test", *self.ood}, 2)
        for method, by_set in self.scores.items():
            self._check_sets(f"score {method!r}", by_set, rows, {"test", *self.ood}, 1)

    def _check_widths(self, inputs: Mapping[str, AnyArray]) -> None:
        m = self.train.shape[-1]
        for what, features in inputs.items():
            if features.ndim != 2 or features.shape[1] != m or len(features) == 0:
                found = f"{what} has shape {features.shape}"
                raise self._error(found, f"give it as (n, {m}) with n >= 1")

    def _check_labels(self, splits: Mapping[str, AnyArray]) -> None:
        for split, features in splits.items():
            labels = getattr(self, f"{split}_labels")
            shape = None if labels is None else labels.shape
            if shape != (len(features),):
                advice = f"give one label for each of the {len(features)} rows of {split}"
                raise self._error(f"{split}_labels has shape {shape}", advice)
        known = np.isin(self.test_labels, self.train_labels)
        if not known.all():
            strange = self.test_labels[~known][0]
            found = f"test has the label {strange!r}, which train lacks"
            raise self._error(found, "name the classes alike")

    def _check_head(self) -> None:
        C, m = len(self.classes), self.train.shape[-1]
        for what, shape in {"head_weight": (C, m), "head_bias": (C,), "classes": (C,)}.items():
            found = getattr(self, what).shape
            if found != shape:
                raise self._error(f"{what} has shape {found}", f"give it as {shape}")

    def _check_names(self) -> None:
        if unknown := sorted(self.near - set(self.ood)):
            advice = f"name sets of ood, which are {sorted(self.ood)}"
            raise self._error(f"near names {unknown}", advice)
        if taken := sorted(RESERVED & set(self.ood)):
            advice = "choose other names: results use these words"
            raise self._error(f"OOD sets are named {taken}", advice)

    def _check_sets(
        self,
        what: str,
        by_set: Mapping[str, AnyArray],
        rows: Mapping[str, int],
        wanted: set[str],
        ndim: int,
    ) -> None:
        if absent := sorted(wanted - set(by_set)):
            raise self._error(f"{what} lacks {absent}", f"give it for each of {sorted(wanted)}")
        for key, array in by_set.items():
            if array.ndim != ndim or (key in rows and len(array) != rows[key]):
                advice = f"give {rows.get(key)} rows in {ndim} dimension(s), as its features have"
                raise self._error(f"{what} has shape {array.shape} for {key!r}", advice)

    def __repr__(self) -> str:
        splits = ", ".join(f"{len(getattr(self, s))} {s}" for s in self.splits)
        ood = ", ".join(f"{name} {len(features)}" for name, features in self.ood.items())
        return f"<FeatureSuite {self.name}: {splits}; OOD: {ood}>"

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the in-distribution sets that are there."""
        if self.calibration is None:
            return ("train", "test")
        return ("train", "calibration", "test")

    @property
    def tests(self) -> dict[str, AnyArray]:
        """What is told apart: the test features, under "test", and each OOD set, by name."""
        return {"test": self.test, **self.ood}

    @property
    def far(self) -> frozenset[str]:
        """Names of the OOD sets that are not near."""
        return frozenset(self.ood) - self.near

    @property
    def head(self) -> Head | None:
        """The network's last layer, or None where it is not known."""
        if self.head_weight is None:
            return None
        return Head(self.head_weight, self.head_bias, self.classes)

    @property
    def classifier(self) -> Head | None:
        """The head, if it knows the labels' classes; else what it predicts cannot be judged."""
        head = self.head
        if head is None or not np.isin(self.test_labels, head.classes).all():
            return None
        return head

    def _error(self, found: str, advice: str) -> InputError:
        return InputError(f"suite {self.name!r}: {found}; {advice}.")


def with_accuracy(sets: FeatureSuite) -> FeatureSuite:
    """Return a suite with the accuracy that its head reaches, if it knows the labels' classes."""
    head = sets.classifier
    if head is None:
        return sets
    correct = head.predict(sets.test) == sets.test_labels
    return replace(sets, accuracy=float(np.mean(correct)))
