"""LayerEnsemble: one detector per layer of a network, their scores made one.

    S_l(z) = score of layer l's detector, of the features z_l of that layer
    score(z) = as `combine` makes one of S_1 ... S_L; see `Ensemble`

What deep layers no longer show, early ones may: noise and other cameras in the first, strange
shapes in the last. With Mahalanobis and combine="linear" it is the detector of Lee, Lee, Lee, Shin:
A Simple Unified Framework for Detecting Out-of-Distribution Samples and Adversarial Attacks,
NeurIPS 2018, whose weights come from `learn_weights`; `typica.nets.LayerPerturb` adds its steps on
the input, one per layer. The same axis serves every detector: of four layers of the paper's
CIFAR-10 DenseNet (10,000 training images), CTM with "fisher" has AUROC 99.50 on SVHN and 97.04 on
Textures, where CTM on the last layer has 99.06 and 96.69.

Rows are those of all layers side by side, (n, sum of their widths). A bank with layers, or a
mapping of names to features, is joined so: `LayerEnsemble().fit(bank)`. Higher = more typical.
Cost: that of the members.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.base import clone

from typica.arrays import (
    AnyArray,
    Array,
    Labels,
    Rows,
    as_features,
    check_rows,
    namespace,
)
from typica.checks import Parameter, optional
from typica.detectors._banks import FeatureBank
from typica.detectors._bases.combination import COMBINE, Combination, unfitted
from typica.detectors._pipelines import final_detector, is_pipeline
from typica.detectors.base import Detector
from typica.detectors.mahalanobis import Mahalanobis
from typica.errors import CalibrationWarning, InputError, about
from typica.origin import PENULTIMATE
from typica.store import storable
from typica.tags import Tags

ONLY = "features"  # the name of the one layer of a plain array


def _is_one(value: Any) -> bool:
    last = value.steps[-1][1] if is_pipeline(value) else value
    return isinstance(last, Detector | str)


def _is_detector(value: Any) -> bool:
    if isinstance(value, Mapping):
        return len(value) > 0 and all(map(_is_one, value.values()))
    return _is_one(value)


DETECTOR = optional(
    Parameter(
        _is_detector,
        "a detector, its name, a Pipeline that ends in one, or one of these by each layer's name",
        "{name} is {kind}; pass a detector, or a dict of detectors by layer.",
    )
)
LAYERS = optional(
    Parameter(
        lambda value: (
            isinstance(value, list | tuple)
            and len(value) == len({*map(str, value)}) > 0
            and all(isinstance(name, str) for name in value)
        ),
        "a list of the names of layers",
        "{name}={value!r} is not a list of names; pass each layer's once, or None.",
    )
)


@storable("layer_ensemble")
class LayerEnsemble(Combination):
    """One detector per layer, their scores made one.

    Parameters
    ----------
    detector
        Unfitted; a copy of it is fitted on each layer. A dict by the names of layers gives each
        its own. None is Mahalanobis.
    layers
        Which to read, and in which order; None reads all that `fit` is given.
    combine
        How the scores become one.

    Attributes
    ----------
    layers_
        The layers that were fitted.
    widths_
        How many columns of a row belong to each.

    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(300) % 2
    >>> early, late = rng.normal(size=(300, 3)), rng.normal(size=(300, 4)) + 5 * np.eye(4)[y]
    >>> detector = LayerEnsemble().fit({"early": early, "late": late}, y)
    >>> strange = {"early": [[9.0, 0.0, 0.0]], "late": [[5.0, 0.0, 0.0, 0.0]]}
    >>> print(detector.explain(strange)[0].note)
    p-values: early 0.0033, late 1; together 0.016
    """

    tags = Tags(
        reads="layers",
        uses_labels=True,
        tolerance=(1e-3, 1e-9),
        fit_cost="sum of the members'",
        score_cost="sum of the members'",
        memory="sum of the members'",
        reference="Lee et al. 2018, NeurIPS, for Mahalanobis",
    )
    params = {"detector": DETECTOR, "layers": LAYERS, "combine": COMBINE}
    learnt_by = ("detector", "layers")

    layers_: list[str]
    widths_: list[int]

    def __init__(
        self, detector: Any = None, layers: list[str] | None = None, combine: str = "fisher"
    ) -> None:
        self.detector = detector
        self.layers = layers
        self.combine = combine

    # What is read: all layers side by side

    def _fit(self, X: Any, y: Any) -> Array:
        self._check_parameters()
        self.__dict__.pop("_incoming", None)
        if not are_layers(X):
            self._check_nameless()
            return super()._fit(X, y)
        names = self._wanted(list(X))
        if not names:
            raise InputError("no layers; pass features (n, m) by the name of each.")
        rows = joined(X, names)
        # How the columns divide, for `_learn`, which is given them as one matrix.
        self._incoming = {name: int(as_features(X[name]).shape[1]) for name in names}
        return super()._fit(rows, y)

    def _check_nameless(self) -> None:
        if self.layers is not None:
            raise InputError(
                f"layers={self.layers!r}, and one matrix, whose columns belong to no layer by "
                "name; pass the features of each layer by its name, or leave out layers."
            )

    def _wanted(self, given: list[str]) -> list[str]:
        """Return the layers to read, of those that are given."""
        if self.layers is not None:
            return list(self.layers)
        return list(self.detector) if isinstance(self.detector, Mapping) else given

    def _check(self, X: Any, reset: bool = False) -> Array:
        return super()._check(joined(X, self.layers_) if are_layers(X) else X, reset)

    def _bank_rows(self, bank: FeatureBank) -> dict[str, AnyArray] | AnyArray:
        """Return a bank's layers by name, its features under that of the layer they are of."""
        if not hasattr(bank, "layers"):  # rows that were read as this detector reads them
            return bank.features
        return layers_of(bank)

    # One member per layer

    def _learn(self, Z: Rows, labels: Labels | None) -> None:
        check_rows(Z)
        widths = self.__dict__.pop("_incoming", {ONLY: int(Z.shape[1])})
        self.layers_, self.widths_ = list(widths), list(widths.values())
        with warnings.catch_warnings():  # about thresholds of members, which nobody asks for
            warnings.simplefilter("ignore", CalibrationWarning)
            self.members_ = []
            for name, part in zip(self.layers_, self._parts(Z), strict=True):
                with about(f"layer {name!r}"):
                    self.members_.append(self._made(name).fit(part, labels))

    def _made(self, layer: str) -> Any:
        """Return a new, unfitted detector for a layer."""
        chosen = self.detector
        if isinstance(chosen, Mapping):
            if layer not in chosen:
                raise InputError(f"`detector` has none for it; give it one of {', '.join(chosen)}.")
            chosen = chosen[layer]
        if chosen is None:
            return Mahalanobis()
        return clone(unfitted(chosen))

    def _parts(self, Z: Any) -> list[Any]:
        """Return the columns of each layer."""
        ends = np.cumsum([0, *self.widths_]).tolist()
        return [Z[:, first:last] for first, last in pairwise(ends)]

    def _member_scores(self, Z: Array) -> Array:
        parts = zip(self.members_, self._parts(Z), strict=True)
        scores = [member.score_samples(part) for member, part in parts]
        return namespace(scores[0]).stack(scores, axis=1)

    def _member_names(self) -> list[str]:
        return list(self.layers_)

    def _score_width(self) -> int:
        finals = [final_detector(member) for member in self.members_]
        classes = len(getattr(finals[-1], "classes_", ()))
        return max(*(final._score_width() for final in finals), len(finals), classes)

    # Classes are those of the last layer's member

    def _similarities(self, Z: Array) -> Array | None:
        last = self.members_[-1]
        return None if is_pipeline(last) else last._similarities(self._parts(Z)[-1])

    @property
    def classes_(self) -> AnyArray:
        """The names of the classes that the last layer's detector knows."""
        return np.asarray(final_detector(self.members_[-1]).classes_)


def layers_of(bank: Any) -> dict[str, AnyArray]:
    """Return a bank's layers by name, its features under that of the layer they are of."""
    origin = bank.origin
    last = PENULTIMATE if origin is None or origin.layer is None else origin.layer
    return {**bank.layers, last: bank.features}


def are_layers(X: Any) -> bool:
    """Tell whether LayerEnsemble is given layers by their names, and not all in one array.

    SciPy has sparse matrices that are mappings too.
    """
    return isinstance(X, Mapping) and not hasattr(X, "shape")


def joined(table: Mapping[str, Any], names: list[str]) -> Array:
    """Return an ensemble's input: the features of its layers side by side, (n, sum of widths).

    >>> joined({"a": np.zeros((2, 1)), "b": np.ones((2, 2))}, ["b", "a"])
    array([[1., 1., 0.],
           [1., 1., 0.]])
    """
    if absent := [name for name in names if name not in table]:
        raise InputError(
            f"there is no layer {absent[0]!r}; there are {', '.join(table) or 'none'}."
        )
    parts = []
    for name in names:
        with about(f"layer {name!r}"):
            parts.append(as_features(table[name], empty=True))
    counts = {int(part.shape[0]) for part in parts}
    if len(counts) > 1:
        raise InputError(f"layers of {sorted(counts)} rows; pass one row per input in each.")
    if len({namespace(part) for part in parts}) > 1:
        kinds = " and ".join(sorted({type(part).__name__ for part in parts}))
        raise InputError(f"layers of kinds {kinds}; pass all as arrays of one kind.")
    return namespace(parts[0]).concat(parts, axis=1)
