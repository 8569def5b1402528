"""Fits, calibrations and scores on Dask: its arrays, its data frames, and files that workers read.

    from dask.distributed import Client
    from typica.scale import dask as on_dask

    with Client("tcp://scheduler:8786"):
        detector = on_dask.fit(CTM(), X, y)          # Dask arrays (n, m) and (n,)
        on_dask.calibrate(detector, held_out, alpha=0.05)
        verdicts = on_dask.score(detector, frame, features="embedding", ids="id")

Every partition is learnt by itself, and what was learnt is merged in a tree. What is retried, moved
or recomputed is Dask's affair: a worker that dies changes nothing in the result.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from typing import Any

from typica.detectors import Detector
from typica.errors import InputError, argument, border
from typica.extras import need
from typica.scale import _fit, _score
from typica.scale._calibrator import Calibrator
from typica.scale._columns import Wanted
from typica.scale._dask_rows import Read, Rows, opened_rows
from typica.scale._engines import PATIENCE, Merge, Work, no_answer, unheard_interrupts
from typica.scale._fit import (
    Known,
    check_learning,
    fit_counted,
    head_width,
    reads_labels,
    width_of,
)
from typica.scale._judge import Judge
from typica.scale._learner import Learner
from typica.scale._on_cluster import Reduce, learn, take_scores
from typica.scale._worker_jobs import Job, Judging

_FAN = 8  # states that are merged at a time


@border
def fit(
    detector: Detector,
    X: Any,
    y: Any = None,
    client: Any = None,
    *,
    features: str | None = None,
    columns: Sequence[str] | None = None,
    sample: int | None = None,
) -> Detector:
    """Fit a detector on a Dask array (n, m) or data frame, or on files that workers read.

    y: labels, a Dask array or series of as many partitions, an array, or a column of the data frame
    or of the files. client: None takes Dask's current one, or its scheduler in this process.
    features, columns: of a data frame or of files, the column of lists, or one column for each
    feature; a data frame that is given neither is features from its first column to its last, but
    for y. sample: as `typica.scale.fit` takes it.

    The result does not depend on the chunks of an array, nor on the parts of files. Rows of a data
    frame are known by partition and place there: those of a sample, and of the provisional
    threshold of more than 2,048, depend on the partitions.
    """
    need("distributed", "dask")
    named: dict[str, Any] = {"features": features, "columns": columns}
    if not _is_collection(X):
        options = {**named, "labels": y, "sample": sample, "engine": DaskCluster(client)}
        return fit_counted(detector, X, **options).detector
    learner = Learner(detector, sample)
    rows = opened_rows(X, y, Wanted(**named), head_width(detector), reads_labels(detector))
    check_learning(learner, Known(rows.has_labels, rows.n, rows.width))
    return learn(learner, _over(rows, client)).finish()


@border
def calibrate(
    estimator: Any,
    X: Any,
    client: Any = None,
    *,
    features: str | None = None,
    columns: Sequence[str] | None = None,
    **options: Any,
) -> Any:
    """Calibrate a fitted detector, or a Pipeline that ends in one, on held-out rows.

    X, client, features, columns: as `fit` takes them. options: alpha or tpr, confidence, by_class
    and groups, those of `Detector.calibrate`. The estimator is changed and returned.
    """
    need("distributed", "dask")
    named: dict[str, Any] = {"features": features, "columns": columns}
    if not _is_collection(X):
        return _fit.calibrate(estimator, X, **named, **options, engine=DaskCluster(client))
    rows = opened_rows(X, None, Wanted(**named), width_of(estimator))
    calibrator = Calibrator.begin(estimator, rows.n, **options)
    return take_scores(calibrator, _over(rows, client)).finish()


@border
def score(
    estimator: Any,
    X: Any,
    output: Any = None,
    client: Any = None,
    *,
    features: str | None = None,
    columns: Sequence[str] | None = None,
    ids: str | None = None,
    **options: Any,
) -> Any:
    """Judge rows: a Dask data frame of verdicts, which is computed when it is asked for.

    X, client, features, columns: as `fit` takes them. ids: a column of a data frame to pass on. The
    verdicts have the index and the partitions of a data frame, and the row numbers of an array as
    their index. Files are judged to a folder `output`, as by `typica.scale.score`. options: alpha
    or tpr, confidence and only, those of `Judge`.
    """
    need("distributed", "dask")
    named: dict[str, Any] = {"features": features, "columns": columns}
    if not _is_collection(X):
        wanted = {**named, "ids": ids, **options}
        return _score.score(estimator, X, output, **wanted, engine=DaskCluster(client))
    if output is not None:
        raise InputError(f"{argument('output')} is for files; write what this returns, to_parquet.")
    judge = Judge(estimator, **options)
    rows = opened_rows(X, None, Wanted(**named, ids=ids), width_of(estimator))
    return _judged(rows, Judging.by(judge), ids)


class DaskCluster:
    """Workers of Dask: those of a client, or of Dask's scheduler in this process."""

    def __init__(self, client: Any = None) -> None:
        self.client = client

    def map(self, work: Work, tasks: Sequence[bytes]) -> Iterator[bytes]:
        """Yield what comes of each task, in order."""
        delayed = need("dask", "dask").delayed
        sent = delayed(work, pure=False)  # once, and not with every task
        yield from _computed([delayed(_call)(sent, task) for task in tasks], self.client)

    def reduce(self, work: Work, merge: Merge, tasks: Sequence[bytes]) -> bytes:
        """Return what comes of all tasks, merged in a tree by the workers."""
        delayed = need("dask", "dask").delayed
        sent = delayed(work, pure=False)
        return _merged([delayed(_call)(sent, task) for task in tasks], merge, self.client)


@contextlib.contextmanager
def connect(address: str | None = None) -> Iterator[DaskCluster]:
    """Open the cluster of the scheduler at an address, or a local one that ends with the block."""
    distributed = need("distributed", "dask")
    local: dict[str, Any] = {"processes": True, "threads_per_worker": 1}
    local |= {"dashboard_address": "127.0.0.1:0", "silence_logs": logging.CRITICAL}
    how = local if address is None else {"address": address, "timeout": PATIENCE}
    try:
        with unheard_interrupts():
            client = distributed.Client(**how, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise no_answer(address, error) from None
    with client:
        yield DaskCluster(client)


def _is_collection(X: Any) -> bool:
    return bool(need("dask", "dask").is_dask_collection(X))


def _call(work: Work, task: bytes) -> bytes:
    return work(task)


def _merged(states: list[Any], merge: Merge, client: Any) -> bytes:
    """Merge some states at a time, then what came of them, and so on."""
    delayed = need("dask", "dask").delayed
    sent = delayed(merge, pure=False)
    while len(states) > 1:
        groups = [states[first : first + _FAN] for first in range(0, len(states), _FAN)]
        states = [delayed(_merge)(sent, group) for group in groups]
    return bytes(next(_computed(states, client)))


def _merge(merge: Merge, states: list[bytes]) -> bytes:
    return merge(states)


def _computed(values: list[Any], client: Any) -> Iterator[Any]:
    """Yield what values are, in order; without a client by Dask's own choice."""
    if client is None:
        yield from need("dask", "dask").compute(*values)
        return
    futures = client.compute(values)
    try:
        for future in futures:
            yield future.result()
    finally:
        client.cancel(futures)  # what nobody waits for any more


def _over(rows: Rows, client: Any) -> Reduce:
    """Return what does a job on all pieces of a collection."""
    delayed = need("dask", "dask").delayed

    def reduce(job: Job) -> bytes:
        sent = delayed(job, pure=False)
        states = [delayed(_state)(sent, rows.read, *piece) for piece in rows.pieces]
        return _merged(states, job.merge, client)

    return reduce


def _state(job: Job, read: Read, *piece: Any) -> bytes:
    return job.state(read(*piece))


def _judged(rows: Rows, judging: Judging, ids: str | None) -> Any:
    """Return a data frame of verdicts, a partition for each piece."""
    delayed = need("dask", "dask").delayed
    sent = delayed(judging, pure=False)
    frames = [
        delayed(_verdicts)(sent, rows.read, piece.value, piece.start, ids) for piece in rows.pieces
    ]
    meta = _verdicts(judging, rows.read, rows.empty, 0, ids)
    return need("dask.dataframe", "dask").from_delayed(
        frames, meta, rows.divisions, verify_meta=False
    )


def _verdicts(judging: Judging, read: Read, value: Any, start: int, ids: str | None) -> Any:
    """Return the verdicts on a piece as a data frame of pandas, with the index of the piece."""
    arrow, pandas = need("pyarrow", "dask"), need("pandas", "dask")
    judge = judging.judge()
    made = arrow.Table.from_batches(map(judge, read(value, None, "", start)), judge.schema)
    rows = made.column("row").to_numpy()
    frame = made.drop_columns(["file", "row"]).to_pandas(types_mapper=pandas.ArrowDtype)
    if not hasattr(value, "index"):
        return frame.set_index(pandas.Index(rows))
    found = value.iloc[rows - start]
    frame.index = found.index
    if ids is not None:
        frame.insert(0, ids, found[ids])
    return frame
