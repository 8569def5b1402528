"""The work of one worker, bytes in and bytes out: what engines send, run and gather."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from typica import store
from typica.arrays import AnyArray
from typica.scale._batches import Batch, read_part
from typica.scale._calibrator import Calibrator
from typica.scale._columns import Columns
from typica.scale._judge import Judge
from typica.scale._learner import Learner
from typica.scale._parts import Part

T = TypeVar("T")


def learn_batches(plan: bytes, batches: Iterable[Batch]) -> bytes:
    """Learn batches. plan: the bytes of a `Learner`, whose own knowledge is left out."""
    learner = Learner.from_bytes(plan).fresh()
    for batch in batches:
        learner.add(batch)
    return learner.to_bytes()


def learn_part(plan: bytes, part: Part, columns: Columns, labels: AnyArray | None = None) -> bytes:
    """Learn a part; labels: of its rows, where no column has them (`Tables.labels_of`)."""
    return learn_batches(plan, read_part(part, columns, labels))


def merge_learnt(states: Iterable[bytes]) -> bytes:
    """Merge what parts have learnt, any number of them, in a tree."""
    return merge_tree(map(Learner.from_bytes, states), Learner.merge).to_bytes()


def calibrate_batches(estimator: bytes, plan: bytes, batches: Iterable[Batch]) -> bytes:
    """Score held-out batches. plan: the bytes of a `Calibrator` without scores."""
    calibrator = Calibrator.from_bytes(plan, store.from_bytes(estimator))
    for batch in batches:
        calibrator.add(batch)
    return calibrator.to_bytes()


def calibrate_part(estimator: bytes, plan: bytes, part: Part, columns: Columns) -> bytes:
    """Score a held-out part."""
    return calibrate_batches(estimator, plan, read_part(part, columns))


def merge_calibrated(states: Iterable[bytes]) -> bytes:
    """Merge the scores of parts, any number of them, in a tree."""
    return merge_tree(map(Calibrator.from_bytes, states), Calibrator.merge).to_bytes()


def judge_part(judge: Judge, part: Part, columns: Columns) -> Iterator[Any]:
    """Yield the verdicts on a part as record batches of `judge.schema`, in order."""
    return map(judge, read_part(part, columns))


def merge_tree(items: Iterable[T], merge: Callable[[T, T], T]) -> T:
    """Merge neighbours, then what came of them, and so on: no item takes in all others by itself.

    Items are taken as they come; about log2 of their number are held at a time.

    >>> merge_tree("abcde", lambda a, b: f"({a}{b})")
    '(((ab)(cd))e)'
    """
    held: list[tuple[int, T]] = []  # what waits, with the height of its tree
    for item in items:
        merged, height = item, 0
        while held and held[-1][0] == height:
            merged = merge(held.pop()[1], merged)
            height += 1
        held.append((height, merged))
    if not held:
        raise ValueError("nothing to merge")
    _, last = held.pop()
    while held:
        last = merge(held.pop()[1], last)
    return last
