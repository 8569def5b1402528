"""The work of one worker, bytes in and bytes out, and the jobs that engines carry to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from typica import store
from typica.arrays import AnyArray
from typica.errors import InputError, border
from typica.extras import need
from typica.scale._batches import Batch, Skipped, read_part
from typica.scale._calibrator import Calibrator
from typica.scale._columns import Columns
from typica.scale._engines import Merge
from typica.scale._files import File, is_address
from typica.scale._judge import Counted, Judge
from typica.scale._learner import Learner
from typica.scale._parts import Part
from typica.scale._tables import Tables
from typica.scale._verdict_shards import shards_at

T = TypeVar("T")


@border
def learn_batches(plan: bytes, batches: Iterable[Batch]) -> bytes:
    """Learn batches. plan: the bytes of a `Learner`; what it has learnt itself is left out."""
    learner = Learner.from_bytes(plan).fresh()
    for batch in batches:
        learner.add(batch)
    return learner.to_bytes()


@border
def learn_part(plan: bytes, part: Part, columns: Columns, labels: AnyArray | None = None) -> bytes:
    """Learn a part; labels: of its rows, if no column has them (`Tables.labels_of`)."""
    return learn_batches(plan, read_part(part, columns, labels))


@border
def merge_learnt(states: Iterable[bytes]) -> bytes:
    """Merge what parts have learnt, any number of them, in a tree."""
    return merge_tree(map(Learner.from_bytes, states), Learner.merge).to_bytes()


@border
def calibrate_batches(estimator: bytes, plan: bytes, batches: Iterable[Batch]) -> bytes:
    """Score held-out batches. plan: the bytes of a `Calibrator` without scores."""
    calibrator = Calibrator.from_bytes(plan, store.from_bytes(estimator))
    for batch in batches:
        calibrator.add(batch)
    return calibrator.to_bytes()


@border
def calibrate_part(estimator: bytes, plan: bytes, part: Part, columns: Columns) -> bytes:
    """Score a held-out part; estimator, plan: as `calibrate_batches` takes them."""
    return calibrate_batches(estimator, plan, read_part(part, columns))


@border
def merge_calibrated(states: Iterable[bytes]) -> bytes:
    """Merge the scores of parts, any number of them, in a tree."""
    return merge_tree(map(Calibrator.from_bytes, states), Calibrator.merge).to_bytes()


def judge_part(judge: Judge, part: Part, columns: Columns) -> Iterator[Any]:
    """Yield the verdicts on a part as record batches of `judge.schema`, in order."""
    return map(judge, read_part(part, columns))


@border
def merge_tree(items: Iterable[T], merge: Callable[[T, T], T]) -> T:
    """Merge neighbours, then the results, and so on: no single item takes in all others.

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
        raise InputError("there is nothing to merge; pass at least one state.")
    _, last = held.pop()
    while held:
        last = merge(held.pop()[1], last)
    return last


class Job(Protocol):
    """What is done with rows wherever they are: make a state of some, and merge several."""

    def state(self, batches: Iterable[Batch]) -> bytes:
        """Return the state of some batches."""

    def merge(self, states: Iterable[bytes]) -> bytes:
        """Return the state of all."""


@dataclass(frozen=True)
class Learning:
    """One pass of a fit; plan: the bytes of a `Learner`."""

    plan: bytes = field(repr=False)

    def state(self, batches: Iterable[Batch]) -> bytes:
        """Return what was learnt from some batches."""
        return learn_batches(self.plan, batches)

    def merge(self, states: Iterable[bytes]) -> bytes:
        """Return what was learnt from all."""
        return merge_learnt(states)


@dataclass(frozen=True)
class Calibrating:
    """A calibration of an estimator, as bytes; plan: those of a `Calibrator` without scores."""

    estimator: bytes = field(repr=False)
    plan: bytes = field(repr=False)

    def state(self, batches: Iterable[Batch]) -> bytes:
        """Return the scores of some batches."""
        return calibrate_batches(self.estimator, self.plan, batches)

    def merge(self, states: Iterable[bytes]) -> bytes:
        """Return the scores of all."""
        return merge_calibrated(states)


@dataclass(frozen=True)
class Judging:
    """Verdicts of an estimator, as bytes; ids, options: as `Judge` takes them."""

    estimator: bytes = field(repr=False)
    ids: tuple[str, Any] | None = None
    options: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def by(cls, judge: Judge) -> Judging:
        """Return what is needed to make an equal judge elsewhere."""
        options = {**judge.levels, "only": judge.only}
        return cls(store.to_bytes(judge.estimator), judge.ids, tuple(options.items()))

    def judge(self) -> Judge:
        """Return the judge; a process reads the same estimator once."""
        return Judge(_estimator(self.estimator), self.ids, **dict(self.options))


@lru_cache(maxsize=2)
def _estimator(data: bytes) -> Any:
    return store.from_bytes(data)


def pack_part(tables: Tables, part: Part) -> bytes:
    """Return a part, with the labels of its rows if no column has them, as bytes."""
    sent = asdict(part)
    if not is_address(part.file.path):
        sent["file"]["path"] = str(Path(part.file.path).resolve())  # a worker may be elsewhere
    return store.to_bytes({"part": sent, "labels": tables.labels_of(part)})


def unpack_part(task: bytes) -> tuple[Part, Any]:
    """Return the part, and the labels or None."""
    sent = store.from_bytes(task)
    file = File(**sent["part"].pop("file"))
    return Part(**sent["part"], file=file), sent["labels"]


@dataclass(frozen=True)
class OnParts:
    """A job on parts, which a worker reads itself."""

    job: Job
    columns: Columns

    def state(self, task: bytes) -> bytes:
        """Return the state of a part."""
        part, labels = unpack_part(task)
        return self.job.state(read_part(part, self.columns, labels))

    def merge(self, states: Iterable[bytes]) -> bytes:
        """Return the state of all."""
        return self.job.merge(states)


class Outcome(NamedTuple):
    """The outcome of a task, if an engine brings back no exceptions: a state, or what is wrong.

    Engines retry whatever is raised, and an error in the input is not worth a retry.
    """

    state: bytes | None
    error: str | None

    def value(self) -> bytes:
        """Return the state, or raise what is wrong."""
        if self.state is None:
            raise InputError(self.error)
        return self.state


def attempt(work: Callable[[], bytes]) -> Outcome:
    """Return the outcome of work, which may be an error in the input."""
    try:
        return Outcome(work(), None)
    except InputError as error:
        return Outcome(None, str(error.args[0]))


def merge_outcomes(merge: Merge, outcomes: Iterable[Outcome]) -> Outcome:
    """Return one outcome of several; if one is wrong, the first of these."""
    return attempt(lambda: merge(outcome.value() for outcome in outcomes))


class Judged(NamedTuple):
    """The result of a part: how many rows, how many are atypical, and verdicts if not written.

    skipped: other rows. verdicts: a stream of Arrow as bytes, in an array.
    """

    n: int
    rejected: int
    skipped: Skipped
    verdicts: AnyArray | None = None

    def batches(self) -> Iterator[Any]:
        """Yield the verdicts as record batches."""
        if self.verdicts is not None:
            yield from need("pyarrow.ipc", "parquet").open_stream(self.verdicts)


@dataclass(frozen=True)
class JudgeParts:
    """Judges parts, which a worker reads itself.

    output: the folder that each part's verdicts are written to, in a file of their own; None sends
    them back.
    """

    judging: Judging
    columns: Columns
    output: str | None = None

    def state(self, task: bytes) -> bytes:
        """Return a `Judged` as bytes."""
        part, _ = unpack_part(task)
        judge = self.judging.judge()
        made = Counted(judge, read_part(part, self.columns))
        verdicts = None
        if self.output is None:
            verdicts = _as_array(made, judge.schema)
        else:
            shards_at(self.output, judge.schema).write(part.number, made)
        judged = Judged(made.n, made.rejected, made.skipped, verdicts)
        return store.to_bytes(judged._asdict() | {"skipped": made.skipped._asdict()})


def unpack_judged(state: bytes) -> Judged:
    """Return what a worker has judged."""
    found = store.from_bytes(state)
    return Judged(**found | {"skipped": Skipped(**found["skipped"])})


def _as_array(batches: Iterable[Any], schema: Any) -> AnyArray:
    arrow = need("pyarrow", "parquet")
    sink = arrow.BufferOutputStream()
    with need("pyarrow.ipc", "parquet").new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return np.frombuffer(sink.getvalue(), np.uint8)
