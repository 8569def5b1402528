"""Scores and matches of rows, block by block: what a method supplies, and how it is asked."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import array_api_compat
import numpy as np

from typica.arrays import AnyArray, Array, is_numpy, is_traced, map_rows, namespace, to_numpy
from typica.errors import InputError, argument, border, by_caller
from typica.estimator import Estimator


class Matches(NamedTuple):
    """Per row: the best matching class, the second best (-1 for none), and their similarities."""

    nearest: Array
    similarity: Array
    runner_up: Array
    runner_up_similarity: Array


def top_two(S: Array) -> Matches:
    """Return the two best columns in each row of the similarities S (n, C), in its backend.

    >>> top_two(np.array([[0.1, 0.9, 0.3]])).runner_up
    array([2])
    """
    xp = namespace(S)
    classes = S.shape[1]
    first = xp.argmax(S, axis=1)
    best = xp.take_along_axis(S, first[:, None], axis=1)[:, 0]
    if classes == 1:
        return Matches(first, best, xp.full_like(first, -1), xp.full_like(best, xp.nan))
    rest = _without(S, first)
    second = xp.argmax(rest, axis=1)
    following = xp.where(first == classes - 1, xp.zeros_like(first), first + 1)
    second = xp.where(second == first, following, second)  # where all of a row are -inf
    return Matches(first, best, second, xp.take_along_axis(S, second[:, None], axis=1)[:, 0])


def better_two(A: Matches, B: Matches) -> Matches:
    """Return the two best of two pairs of matches; of equal ones those of A.

    >>> A, B = top_two(np.array([[0.1, 0.9]])), top_two(np.array([[0.5, 0.2]]))
    >>> better_two(A, B).runner_up_similarity
    array([0.5])
    """
    xp = namespace(A.similarity)
    pairs = [(A.nearest, A.similarity), (A.runner_up, A.runner_up_similarity)]
    pairs += [(B.nearest, B.similarity), (B.runner_up, B.runner_up_similarity)]
    places = xp.stack([place for place, _ in pairs], axis=1)
    values = xp.stack([value for _, value in pairs], axis=1)
    values = xp.where(places < 0, xp.full_like(values, -xp.inf), values)
    best = top_two(values)
    first, second = (
        xp.take_along_axis(places, place[:, None], axis=1)[:, 0]
        for place in (best.nearest, best.runner_up)
    )
    return Matches(first, best.similarity, second, best.runner_up_similarity)


def _without(S: Array, columns: Array) -> Array:
    """Return S (n, C) with -inf in one column (n,) of each row."""
    if is_numpy(S):  # in less time than comparing takes
        rest = S.copy()
        rest[np.arange(len(S)), columns] = -np.inf
        return rest
    xp = namespace(S)
    every = xp.arange(S.shape[1], device=array_api_compat.device(S))
    return xp.where(every[None, :] == columns[:, None], xp.full_like(S, -xp.inf), S)


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
        scores = map_rows(self._score, Z, self._score_width(), nan_passes=self._nan_passes)
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

        scores = map_rows(both, Z, self._score_width(), nan_passes=self._nan_passes)
        _check_bounded(scores)
        if not parts:
            return scores, None
        if is_traced(Z):
            return scores, parts[0]
        columns = zip(*parts, strict=True)
        return scores, Matches(*(np.concatenate(list(map(to_numpy, column))) for column in columns))

    def _predicted(self, matches: Matches | None) -> AnyArray:
        """Return the names of the nearest classes."""
        if matches is None:
            raise _no_classes()
        return np.asarray(self.classes_[matches.nearest])


def _check_bounded(scores: Array) -> None:
    """Refuse a score of +inf, which would be typical whatever the threshold: the row overflows."""
    if is_traced(scores):
        return
    xp = namespace(scores)
    endless = scores == xp.inf
    if bool(xp.any(endless)):
        row = int(xp.argmax(xp.astype(endless, xp.int8)))
        raise InputError(
            f"the score of row {row} exceeds {scores.dtype}; pass float64, or rescale the features."
        )


def _no_classes() -> InputError:
    python = "use the classifier's own prediction."
    shell = f"leave out {argument('by_class')}, or take one that does, such as ctm."
    return InputError(f"this detector matches no classes; {by_caller(python, shell)}")
