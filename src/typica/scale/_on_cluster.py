"""Fit, calibrate and score tables on a cluster: the same steps whatever the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from typica import store
from typica.errors import InputError
from typica.progress import advance, work
from typica.scale._calibrator import Calibrator
from typica.scale._engines import Cluster
from typica.scale._judge import Judge
from typica.scale._learner import Learner
from typica.scale._parts import Part
from typica.scale._tables import Stream, Tables
from typica.scale._worker_jobs import (
    Calibrating,
    Job,
    Judged,
    JudgeParts,
    Judging,
    Learning,
    OnParts,
    pack_part,
    unpack_judged,
)

_HELD = 64  # parts whose verdicts wait for this process at a time

Reduce = Callable[[Job], bytes]  # does a job on all rows


def learn(learner: Learner, reduce: Reduce) -> Learner:
    """Return what a cluster has learnt from all rows, in as many passes as it takes."""
    for _ in range(learner.passes):
        learnt = reduce(Learning(learner.to_bytes()))
        learner = Learner.from_bytes(learnt).close()
    return learner


def take_scores(calibrator: Calibrator, reduce: Reduce) -> Calibrator:
    """Return a calibrator with the scores of all rows."""
    sent = store.to_bytes(calibrator.estimator)
    scores = reduce(Calibrating(sent, calibrator.to_bytes()))
    return Calibrator.from_bytes(scores, calibrator.estimator)


def as_files(tables: Tables | Stream) -> Tables:
    """Return tables unchanged; refuse an object, whose rows no worker could read."""
    if isinstance(tables, Stream):
        kind = type(tables.source).__name__
        raise InputError(
            f"{kind} is an object of this process, and the workers of an engine read files; write "
            "it as Parquet, or leave the engine out."
        )
    return tables


def over_parts(cluster: Cluster, tables: Tables, what: str) -> Reduce:
    """Return a function that does a job on the parts of tables."""
    tasks = [pack_part(tables, part) for part in tables.parts]

    def reduce(job: Job) -> bytes:
        each = OnParts(job, tables.columns)
        with work(what, None):
            return cluster.reduce(each.state, each.merge, tasks) if tasks else job.state([])

    return reduce


def judge_parts(
    cluster: Cluster, judge: Judge, tables: Tables, parts: list[Part], output: str | None = None
) -> Iterator[Judged]:
    """Yield the result of each part, in order; output: the folder that workers write to."""
    each = JudgeParts(Judging.by(judge), tables.columns, output)
    step = _HELD if output is None else len(parts)
    for first in range(0, len(parts), max(1, step)):
        tasks = [pack_part(tables, part) for part in parts[first : first + step]]
        for state in cluster.map(each.state, tasks):
            judged = unpack_judged(state)
            advance(judged.n + judged.skipped.n)
            yield judged
