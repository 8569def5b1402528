"""The two classes that match a row best, and their similarities."""

from __future__ import annotations

from typing import NamedTuple

import array_api_compat
import numpy as np

from typica.arrays import Array, is_numpy, namespace


class Matches(NamedTuple):
    """Per row: the best matching class, the second best (-1 for none), and their similarities."""

    nearest: Array
    similarity: Array
    runner_up: Array
    runner_up_similarity: Array


def top_two(S: Array) -> Matches:
    """Return the two classes that match each row best, by similarities S (n, C), in its backend.

    >>> top_two(np.array([[0.1, 0.9, 0.3]])).runner_up
    array([2])
    """
    xp = namespace(S)
    classes = S.shape[1]
    first = xp.argmax(S, axis=1)
    best = xp.take_along_axis(S, first[:, None], axis=1)[:, 0]
    if classes == 1:
        return Matches(first, best, xp.full_like(first, -1), xp.full_like(best, xp.nan))
    rest = _without_nearest(S, first)
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


def _without_nearest(S: Array, columns: Array) -> Array:
    """Return the similarities S (n, C) of matches with -inf for the nearest class (n,) of each."""
    if is_numpy(S):  # in less time than comparing takes
        rest = S.copy()
        rest[np.arange(len(S)), columns] = -np.inf
        return rest
    xp = namespace(S)
    every = xp.arange(S.shape[1], device=array_api_compat.device(S))
    return xp.where(every[None, :] == columns[:, None], xp.full_like(S, -xp.inf), S)
