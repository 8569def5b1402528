"""The contract that every detector keeps, written once.

A method is one file beside this one: its formula, a pure kernel, a thin subclass of `Detector` with its
`Tags`. The subclass says how to learn from a batch (`_learn`) and how to score a block of rows (`_score`);
validation, blocks, thresholds, explanations, merging and storage are here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from typica import store
from typica.arrays import Array, as_features, as_floating, map_rows, namespace, to_numpy
from typica.errors import InputError
from typica.explanation import Explanation
from typica.head import Head
from typica.threshold import Calibration, threshold

TRAINING_SAMPLE = 10_000  # how many training rows the provisional threshold of `fit` looks at


@dataclass(frozen=True)
class Tags:
    """What a detector needs and promises. Drives the checks, the documentation and the command line.

    tolerance: how far scores may stray from a float64 reference, relative to their scale, (float32, float64).
    The last four are for people: costs in n rows, m features, C classes, N training rows.
    """

    needs_head: bool = False
    needs_labels: bool = False
    needs_fit: bool = True
    reads: str = "features"
    uses_labels: bool = False
    differentiable: bool = True
    mergeable: bool = False
    saveable: bool = True
    tolerance: tuple[float, float] = (1e-6, 1e-12)
    fit_cost: str = ""
    score_cost: str = ""
    memory: str = ""
    reference: str = ""


class Matches(NamedTuple):
    """Per row: the best matching class, the second best (-1 if there is none), and their similarities."""

    nearest: NDArray[np.int64]
    similarity: NDArray[Any]
    runner_up: NDArray[np.int64]
    runner_up_similarity: NDArray[Any]


def top_two(S: Array) -> Matches:
    """Return the two best columns in each row of the similarities S (n, C).

    >>> top_two(np.array([[0.1, 0.9, 0.3]])).runner_up
    array([2])
    """
    S = to_numpy(S)
    rows = np.arange(len(S))
    first = np.argmax(S, axis=1)
    if S.shape[1] == 1:
        none = np.full(len(S), -1)
        return Matches(first, S[:, 0], none, np.full(len(S), np.nan, dtype=S.dtype))
    rest = S.copy()
    rest[rows, first] = -np.inf
    second = np.argmax(rest, axis=1)
    return Matches(first, S[rows, first], second, S[rows, second])


def check_positive(value: Any, name: str, where: str) -> None:
    """Raise unless the parameter `name` is a positive finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 < value < np.inf:
        raise InputError(f"{where}: {name}={value!r} is not a positive number; pass {name}>0.")


def _mergeable(detector: Detector) -> bool:
    return detector.tags.mergeable


class Detector(OutlierMixin, BaseEstimator):
    """A detector: fit on what the classifier has seen, then score; higher = more typical.

    Subclasses set `tags` and write `_learn`, `_score` and, where a row can be matched with a class,
    `_similarities`. Fitted attributes end in an underscore and are what `save` stores.
    """

    tags: ClassVar[Tags]
    kind: ClassVar[str]
    n_features_in_: int
    offset_: float
    calibration_: Calibration

    # What a method supplies

    def _learn(self, Z: NDArray[Any], labels: NDArray[Any] | None, where: str) -> None:
        """Take in one batch of training features (any float dtype, NumPy)."""

    def _absorb(self, other: Self) -> None:
        """Take in what `other` has learnt."""
        raise InputError(f"{type(self).__name__}.merge: this method cannot merge; fit it on all data at once.")

    def _prepare(self, where: str) -> None:
        """Derive from what was learnt what scoring needs; say what makes that impossible. May be called twice."""

    def _score(self, Z: Array) -> Array:
        """Score one block of checked float32 or float64 rows, in their backend."""
        raise InputError(f"{type(self).__name__}: this detector has no score.")

    def _similarities(self, Z: Array) -> Array | None:
        """Return (n, C) similarities to the classes `self.classes_` for one block, or None."""
        return None

    @property
    def n_features(self) -> int | None:
        """The number of features that a row must have, or None if anything goes."""
        head = getattr(self, "head", None)
        return head.n_features if head is not None else getattr(self, "n_features_in_", None)

    def _note(self, z: NDArray[Any]) -> str:
        """Return what else `explain` should say about one row."""
        return ""

    def _score_width(self) -> int:
        """Return the most numbers a row that `_score` makes, so that blocks can be cut to size."""
        return 1

    # What users call

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from the training features X (n, m) and, where the method uses them, the labels y.

        Sets a provisional threshold from a sample of the training rows themselves, which is optimistic: the
        fit has seen them. Call `calibrate` with held-out rows for one that holds its promise.
        """
        where = f"{type(self).__name__}.fit"
        self._check_parameters(where)
        Z = self._check(X, where, reset=True)
        self._forget()
        self._learn(to_numpy(Z), self._check_labels(y, where), where)
        return self.set_training_threshold(Z)

    @available_if(_mergeable)
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from one more batch. Invalidates the threshold: call `calibrate` when the stream ends."""
        where = f"{type(self).__name__}.partial_fit"
        self._check_parameters(where)
        Z = self._check(X, where, reset=not self._has_learnt())
        self._learn(to_numpy(Z), self._check_labels(y, where), where)
        self._drop_threshold()
        return self

    @available_if(_mergeable)
    def merge(self, other: Self) -> Self:
        """Take in what `other`, fitted on other data, has learnt; equal to a fit on all of it.

        Changes this detector and returns it; `other` stays as it is. Invalidates the threshold.
        """
        where = f"{type(self).__name__}.merge"
        if type(other) is not type(self):
            raise InputError(f"{where}: got {type(other).__name__}; pass another {type(self).__name__}.")
        if self.get_params(deep=False) != other.get_params(deep=False):
            raise InputError(f"{where}: the two were made with different parameters; fit both alike.")
        other._check_fitted(where)
        if self._has_learnt() and self.n_features != other.n_features:
            raise InputError(
                f"{where}: {self.n_features} features here, {other.n_features} there; fit both on the same layer."
            )
        self._absorb(other)
        self.n_features_in_ = other.n_features_in_
        self._drop_threshold()
        return self

    def calibrate(self, X: Any, tpr: float = 0.95) -> Self:
        """Set the threshold `offset_` from held-out in-distribution rows, to keep at least `tpr` of such rows.

        The rows must not have been used by `fit`. See `typica.calibrate` for pipelines.
        """
        where = f"{type(self).__name__}.calibrate"
        self._set_threshold(self._ready(X, where), tpr, "held-out", where)
        return self

    def set_training_threshold(self, X: Any) -> Self:
        """Set the provisional threshold of `fit`, at tpr 0.95 on at most 10,000 of the training rows X."""
        where = f"{type(self).__name__}.fit"
        Z = self._ready(X, where)
        if Z.shape[0] > TRAINING_SAMPLE:
            chosen = np.random.default_rng(0).choice(Z.shape[0], TRAINING_SAMPLE, replace=False)
            Z = to_numpy(Z)[np.sort(chosen)]
        self._set_threshold(Z, 0.95, "training", where)
        return self

    def score_samples(self, X: Any) -> Array:
        """Return one score a row, higher = more typical, in the backend and precision of X."""
        where = f"{type(self).__name__}.score_samples"
        return self._scores(self._ready(X, where), where)

    def decision_function(self, X: Any) -> Array:
        """Return score - threshold: negative where the row is rejected."""
        where = f"{type(self).__name__}.decision_function"
        scores = self._scores(self._ready(X, where), where)
        return scores - self._threshold(where)

    def predict(self, X: Any) -> Array:
        """Return +1 for typical rows (score >= threshold) and -1 for the others."""
        where = f"{type(self).__name__}.predict"
        scores = self._scores(self._ready(X, where), where)
        accepted = scores >= self._threshold(where)
        xp = namespace(scores)
        return 2 * xp.astype(accepted, xp.int64) - 1

    def explain(self, X: Any) -> list[Explanation]:
        """Say for each row why it is accepted or rejected."""
        where = f"{type(self).__name__}.explain"
        Z = as_floating(to_numpy(self._ready(X, where)))
        scores = self._scores(Z, where)
        matches = self.match(Z)
        calibration: Calibration | None = getattr(self, "calibration_", None)
        percentiles = None if calibration is None else calibration.percentile(scores)
        offset = getattr(self, "offset_", None)
        explanations = []
        for i, score in enumerate(scores):
            named = {} if matches is None else self._named(matches, i)
            explanations.append(
                Explanation(
                    score=float(score),
                    typical=None if offset is None else bool(score >= offset),
                    threshold=offset,
                    percentile=None if percentiles is None else float(percentiles[i]),
                    note=self._note(Z[i]),
                    **named,
                )
            )
        return explanations

    def classify(self, X: Any) -> NDArray[Any]:
        """Return the name of the class that matches best for each row, whatever the verdict."""
        where = f"{type(self).__name__}.classify"
        Z = self._ready(X, where)

        def best(block: Array) -> Array:
            similarities = self._similarities(block)
            if similarities is None:
                raise InputError(f"{where}: this method matches no classes; use the classifier's own prediction.")
            return namespace(similarities).argmax(similarities, axis=1)

        chosen: NDArray[Any] = self.classes_[to_numpy(map_rows(best, Z, where, self._score_width()))]
        return chosen

    def match(self, X: Any) -> Matches | None:
        """Return for each row the two classes (as positions in `classes_`) that match best, or None."""
        where = f"{type(self).__name__}.match"
        Z = self._ready(X, where)
        parts: list[Matches] = []

        def collect(block: Array) -> Array:
            similarities = self._similarities(block)
            if similarities is not None:
                parts.append(top_two(similarities))
            return block[:, 0]

        map_rows(collect, Z, where, self._score_width())
        if not parts:
            return None
        return Matches(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def save(self, path: Any) -> None:
        """Write the detector to one safetensors file; `typica.load` reads it back."""
        if not self.tags.saveable:
            raise InputError(
                f"{type(self).__name__}.save: this method holds objects that only pickle can store; "
                "fit it again where it is needed."
            )
        store.save(self, path)

    # How it is done

    def _check(self, X: Any, where: str, reset: bool = False) -> Array:
        """Check the input's form; with `reset`, note its width and column names as those to expect."""
        head = getattr(self, "head", None)
        expected = (None if head is None else head.n_features) if reset else self.n_features
        Z = as_features(X, where, expected)
        validate_data(self, X if hasattr(X, "columns") else Z, reset=reset, skip_check_array=True)
        return Z

    def _check_parameters(self, where: str) -> None:
        """Check the constructor's parameters before work starts."""
        head = getattr(self, "head", None)
        if head is None and self.tags.needs_head:
            raise InputError(f"{where}: no head; pass head=typica.Head(weight, bias).")
        if head is not None and not isinstance(head, Head):
            raise InputError(f"{where}: head is a {type(head).__name__}; pass typica.Head(weight, bias).")

    def _check_labels(self, y: Any, where: str) -> NDArray[Any] | None:
        if y is None and self.tags.needs_labels:
            raise InputError(f"{where}: requires y to be passed, but the target y is None; pass the labels.")
        return None if y is None or not self.tags.uses_labels else to_numpy(y)

    def _ready(self, X: Any, where: str) -> Array:
        """Return the checked input of a detector that is checked to be ready to score."""
        self._check_fitted(where)
        self._prepare(where)
        return self._check(X, where)

    def _check_fitted(self, where: str) -> None:
        self._check_parameters(where)
        if self.tags.needs_fit and not self._has_learnt():
            raise NotFittedError(f"{where}: this {type(self).__name__} is not fitted yet; call fit first.")

    def __sklearn_is_fitted__(self) -> bool:
        return not self.tags.needs_fit or self._has_learnt()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = self.tags.needs_fit
        tags.target_tags.required = self.tags.needs_labels
        return tags

    def _has_learnt(self) -> bool:
        return hasattr(self, "n_features_in_")

    def _forget(self) -> None:
        """Drop what an earlier fit has left, except what the check of this fit's input has just set."""
        keep = ("n_features_in_", "feature_names_in_")
        for name in [key for key in store.fitted_state(self) if key not in keep]:
            delattr(self, name)

    def _scores(self, Z: Array, where: str) -> Array:
        return map_rows(self._score, Z, where, self._score_width())

    def _set_threshold(self, Z: Array, tpr: float, source: str, where: str) -> None:
        scores = to_numpy(self._scores(Z, where))
        self.calibration_ = threshold(scores, tpr, source=source, where=where)
        self.offset_ = self.calibration_.threshold

    def _drop_threshold(self) -> None:
        for name in ("calibration_", "offset_"):
            if hasattr(self, name):
                delattr(self, name)

    def _threshold(self, where: str) -> float:
        if not hasattr(self, "offset_"):
            raise NotFittedError(
                f"{where}: there is no threshold yet (partial_fit and merge invalidate it); "
                "call calibrate with held-out inputs."
            )
        return float(self.offset_)

    def _named(self, matches: Matches, i: int) -> dict[str, Any]:
        """Return the fields of an Explanation that tell of classes."""
        best, second = int(matches.nearest[i]), int(matches.runner_up[i])
        fields = {"nearest": self.classes_[best].item(), "similarity": float(matches.similarity[i])}
        if second >= 0:
            fields["runner_up"] = self.classes_[second].item()
            fields["runner_up_similarity"] = float(matches.runner_up_similarity[i])
            fields["margin"] = fields["similarity"] - fields["runner_up_similarity"]
        return fields

    @property
    def classes_(self) -> NDArray[Any]:
        """The names of the classes that a row can be matched with."""
        raise AttributeError(f"{type(self).__name__} matches no classes")

    def state(self) -> dict[str, Any]:
        """Return parameters and fitted attributes, to be stored."""
        return {"params": self.get_params(deep=False), "fitted": store.fitted_state(self)}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Rebuild a detector from what was stored."""
        detector = cls(**state["params"])
        store.set_state(detector, state["fitted"])
        return detector
