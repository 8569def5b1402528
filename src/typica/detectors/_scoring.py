"""Scores and matches of rows, block by block: what a method supplies, and how it is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from typica.arrays import AnyArray, Array, is_traced, map_rows, namespace, to_numpy
from typica.detectors._matches import Matches, top_two
from typica.errors import InputError, argument, border, by_caller
from typica.estimator import Estimator


class Scorer(Estimator):
    """An estimator that scores rows and, where it can, matches them with classes."""

    # Whether `_score` makes NaN or infinity in a row into a score that is not finite.
    _nan_passes: ClassVar[bool] = False

    # What a method supplies

    def _score(self, Z: Array) -> Array:
        """Score one block of checked float32 or float64 rows, in their backend."""
        raise InputError("this detector has no score.")

    def _similarities(self, Z: Array) -> Array | None:
        """Return (n, C) similarities to the classes `self.classes_` for one block, or None."""
        return None

    def _score_and_similarities(self, Z: Array) -> tuple[Array, Array | None]:
        """Return both for one block; from the same product where the method can."""
        return self._score(Z), self._similarities(Z)

    def _score_and_match(self, Z: Array) -> tuple[Array, Matches | None]:
        """Return the scores of one block, and the two classes that match each row best."""
        scores, similarities = self._score_and_similarities(Z)
        return scores, None if similarities is None else top_two(similarities)

    def _nearest(self, Z: Array) -> Array | None:
        """Return the place of the class that matches each row of one block best."""
        similarities = self._similarities(Z)
        if similarities is None:
            return None
        return namespace(similarities).argmax(similarities, axis=1)

    def _score_width(self) -> int:
        """Return the most numbers per row that `_score` makes: blocks are cut to size by it."""
        return 1

    @property
    def classes_(self) -> AnyArray:
        """The names of the classes that a row can be matched with."""
        raise AttributeError(f"{type(self).__name__} matches no classes")

    # What users call

    @border
    def score_samples(self, X: Any) -> Array:
        """Return one score per row, higher = more typical, in the backend and precision of X."""
        return self._scores(self._ready(X))

    @border
    def classify(self, X: Any) -> AnyArray:
        """Return the name of the class that matches best for each row, whatever the verdict."""
        Z = self._ready(X)

        def best(block: Array) -> Array:
            nearest = self._nearest(block)
            if nearest is None:
                raise _no_classes()
            return nearest

        chosen = to_numpy(map_rows(best, Z, self._score_width()))
        return np.asarray(self.classes_[chosen])

    @border
    def match(self, X: Any) -> Matches | None:
        """Return the two classes (positions in `classes_`) that match each row best, or None."""
        return self._assess(self._ready(X))[1]

    @border
    def score_and_match(self, X: Any) -> tuple[Array, Matches | None]:
        """Return what `score_samples` and `match` do, from one pass over X."""
        return self._assess(self._ready(X))

    # How it is done

    def _scores(self, Z: Array) -> Array:
        return self._map_scores(self._score, Z)

    def _map_scores(self, kernel: Callable[[Array], Array], Z: Array) -> Array:
        """Return the scores that `kernel` makes of blocks of rows, checked."""
        with np.errstate(invalid="ignore"):  # NaN is refused below
            scores = map_rows(kernel, Z, self._score_width(), nan_passes=self._nan_passes)
        _check_bounded(scores)
        return scores

    def _assess(self, Z: Array) -> tuple[Array, Matches | None]:
        """Return scores and matches of checked rows in one pass."""
        parts: list[Matches] = []

        def both(block: Array) -> Array:
            scores, matches = self._score_and_match(block)
            if matches is not None:
                parts.append(matches)
            return scores

        scores = self._map_scores(both, Z)
        if not parts:
            return scores, None
        if is_traced(Z):
            return scores, parts[0]
        columns = zip(*parts, strict=True)
        joined = [np.concatenate(list(map(to_numpy, column))) for column in columns]
        return scores, Matches(*(column[: Z.shape[0]] for column in joined))

    def _predicted(self, matches: Matches | None) -> AnyArray:
        """Return the names of the nearest classes."""
        if matches is None:
            raise _no_classes()
        return np.asarray(self.classes_[matches.nearest])


def _check_bounded(scores: Array) -> None:
    """Refuse scores of rows that overflow: NaN, and +inf, typical whatever the threshold."""
    if is_traced(scores):
        return
    xp = namespace(scores)
    endless = ~(scores < xp.inf)  # NaN compares false
    if bool(xp.any(endless)):
        row = int(xp.argmax(xp.astype(endless, xp.int8)))
        remedy = "pass float64, or rescale the features."
        if bool(xp.isnan(scores[row])):
            raise InputError(f"score {row} is NaN: the row overflows {scores.dtype}; {remedy}")
        raise InputError(f"the score of row {row} exceeds {scores.dtype}; {remedy}")


def _no_classes() -> InputError:
    python = "use the classifier's own prediction."
    shell = f"leave out {argument('by_class')}, or take one that does, such as ctm."
    return InputError(f"this detector matches no classes; {by_caller(python, shell)}")
