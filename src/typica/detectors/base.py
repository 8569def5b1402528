"""The contract that every detector keeps, written once.

A method is one file beside this one: its formula, a pure kernel, a thin subclass of `Detector` with
its `Tags`. The subclass says how to learn from a batch (`_learn`) and how to score a block of rows
(`_score`); blocks, thresholds and explanations are here, validation, merging and storage in
`typica.estimator`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import OutlierMixin

from typica.arrays import Array, as_floating, map_rows, namespace, to_numpy
from typica.errors import InputError, border
from typica.estimator import Estimator, NotFittedError, Tags
from typica.explanation import Contribution, Explanation
from typica.threshold import Calibration, threshold

__all__ = ["Detector", "Matches", "Tags", "top_two"]

TRAINING_SAMPLE = 2048  # how many training rows the provisional threshold of `fit` looks at


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


class Detector(OutlierMixin, Estimator):
    """A detector: fit on what the classifier has seen, then score; higher = more typical.

    Subclasses set `tags` and write `_learn`, `_score` and, where a row can be matched with a class,
    `_similarities`. Fitted attributes end in an underscore and are what `save` stores.
    """

    offset_: float
    calibration_: Calibration
    source_: (
        dict[str, Any] | None
    )  # the model, layer and transform that made the features, where `typica fit` knows
    _nan_passes: ClassVar[bool] = (
        False  # whether `_score` makes NaN or infinity in a row into a score that is not finite
    )

    # What a method supplies

    def _score(self, Z: Array) -> Array:
        """Score one block of checked float32 or float64 rows, in their backend."""
        raise InputError("this detector has no score.")

    def _similarities(self, Z: Array) -> Array | None:
        """Return (n, C) similarities to the classes `self.classes_` for one block, or None."""
        return None

    def _contributions(self, z: NDArray[Any], nearest: int) -> tuple[Contribution, ...]:
        """Return the features of one row that add most to its distance from the class at `nearest`."""
        return ()

    def _note(self, z: NDArray[Any]) -> str:
        """Return what else `explain` should say about one row."""
        return ""

    def _score_width(self) -> int:
        """Return the most numbers a row that `_score` makes, so that blocks can be cut to size."""
        return 1

    # What users call

    @border
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from the training features X (n, m) and, where the method uses them, the labels y.

        Sets a provisional threshold from a sample of the training rows themselves, which is
        optimistic: the fit has seen them. Call `calibrate` with held-out rows for one that holds
        its promise.
        """
        self._set_provisional_threshold(self._fit(X, y))
        return self

    def fit_predict(self, X: Any, y: Any = None) -> Array:
        """Fit on X, with the labels y, and judge the same rows."""
        return self.fit(X, y).predict(X)

    @border
    def calibrate(self, X: Any, tpr: float = 0.95) -> Self:
        """Set the threshold `offset_` from held-out in-distribution rows, to keep at least `tpr` of such rows.

        The rows must not have been used by `fit`. See `typica.calibrate` for pipelines.
        """
        self._set_threshold(self._ready(X), tpr, "held-out")
        return self

    @border
    def set_training_threshold(self, X: Any) -> Self:
        """Set the provisional threshold of `fit`, at tpr 0.95 on at most 2,048 of the training rows X."""
        self._set_provisional_threshold(self._ready(X))
        return self

    @border
    def score_samples(self, X: Any) -> Array:
        """Return one score a row, higher = more typical, in the backend and precision of X."""
        return self._scores(self._ready(X))

    @border
    def decision_function(self, X: Any) -> Array:
        """Return score - threshold: negative where the row is rejected."""
        scores = self._scores(self._ready(X))
        return scores - self._threshold()

    @border
    def predict(self, X: Any) -> Array:
        """Return +1 for typical rows (score >= threshold) and -1 for the others."""
        scores = self._scores(self._ready(X))
        accepted = scores >= self._threshold()
        xp = namespace(scores)
        return 2 * xp.astype(accepted, xp.int64) - 1

    @border
    def explain(self, X: Any) -> list[Explanation]:
        """Say for each row why it is accepted or rejected."""
        Z = as_floating(to_numpy(self._ready(X)))
        scores = self._scores(Z)
        matches = self.match(Z)
        calibration: Calibration | None = getattr(self, "calibration_", None)
        percentiles = None if calibration is None else calibration.percentile(scores)
        offset = getattr(self, "offset_", None)
        explanations = []
        for i, score in enumerate(scores):
            named = {} if matches is None else self._named(matches, i)
            parts = () if matches is None else self._contributions(Z[i], int(matches.nearest[i]))
            explanations.append(
                Explanation(
                    score=float(score),
                    typical=None if offset is None else bool(score >= offset),
                    threshold=offset,
                    percentile=None if percentiles is None else float(percentiles[i]),
                    contributions=parts,
                    note=self._note(Z[i]),
                    **named,
                )
            )
        return explanations

    @border
    def classify(self, X: Any) -> NDArray[Any]:
        """Return the name of the class that matches best for each row, whatever the verdict."""
        Z = self._ready(X)

        def best(block: Array) -> Array:
            similarities = self._similarities(block)
            if similarities is None:
                raise InputError(
                    "this method matches no classes; use the classifier's own prediction."
                )
            return namespace(similarities).argmax(similarities, axis=1)

        chosen = to_numpy(map_rows(best, Z, self._score_width()))
        return np.asarray(self.classes_[chosen])

    @border
    def match(self, X: Any) -> Matches | None:
        """Return for each row the two classes (as positions in `classes_`) that match best, or None."""
        Z = self._ready(X)
        parts: list[Matches] = []

        def collect(block: Array) -> Array:
            similarities = self._similarities(block)
            if similarities is not None:
                parts.append(top_two(similarities))
            return block[:, 0]

        map_rows(collect, Z, self._score_width())
        if not parts:
            return None
        return Matches(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    # How it is done

    def _scores(self, Z: Array) -> Array:
        return map_rows(self._score, Z, self._score_width(), nan_passes=self._nan_passes)

    def _set_provisional_threshold(self, Z: Array) -> None:
        if Z.shape[0] > TRAINING_SAMPLE:
            chosen = np.random.default_rng(0).choice(Z.shape[0], TRAINING_SAMPLE, replace=False)
            Z = to_numpy(Z)[np.sort(chosen)]
        self._set_threshold(Z, 0.95, "training")
        # The row that sets the threshold is a training row: rounding, which depends on the batch
        # that a row comes in, must not reject it when it comes again.
        single = as_floating(Z[:1, ...]).dtype != namespace(Z).float64
        slack = self.tags.tolerance[0 if single else 1] * float(
            np.abs(self.calibration_.quantiles).max()
        )
        self.calibration_ = replace(
            self.calibration_, threshold=self.calibration_.threshold - slack
        )
        self.offset_ = self.calibration_.threshold

    def _set_threshold(self, Z: Array, tpr: float, source: str) -> None:
        scores = to_numpy(self._scores(Z))
        self.calibration_ = threshold(scores, tpr, source=source)
        self.offset_ = self.calibration_.threshold

    def _learnt_more(self) -> None:
        for name in ("calibration_", "offset_"):
            if hasattr(self, name):
                delattr(self, name)

    def _threshold(self) -> float:
        if not hasattr(self, "offset_"):
            raise NotFittedError(
                "there is no threshold yet (partial_fit and merge invalidate it); "
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
