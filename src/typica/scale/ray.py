"""Fits, calibrations and scores on Ray: its data sets, and files that workers read.

    import ray
    from typica.scale import ray as on_ray

    rows = ray.data.read_parquet("s3://bucket/embeddings/")
    detector = on_ray.fit(CTM(), rows, "label", features="embedding")
    on_ray.calibrate(detector, held_out, features="embedding", alpha=0.05)
    verdicts = on_ray.score(detector, rows, features="embedding", ids="id")

`Scorer` and `Extractor` are callable classes for `Dataset.map_batches`, for a pipeline of your own:
images to features by one network per actor, features to verdicts. What is retried or moved is Ray's
affair: a worker that dies changes nothing in the result.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from typica import store
from typica.decide import load_detector
from typica.detectors import Detector
from typica.errors import InputError, argument, border
from typica.extras import need
from typica.scale import _fit, _score
from typica.scale._batches import read_records
from typica.scale._calibrator import Calibrator
from typica.scale._columns import Columns, Wanted, opened_columns
from typica.scale._engines import Merge, Work, no_answer, unheard_interrupts
from typica.scale._fit import Known, check_learning, fit_counted, head_width, reads_labels, width_of
from typica.scale._judge import Judge, VerdictsOf
from typica.scale._learner import Learner
from typica.scale._on_cluster import Reduce, learn, take_scores
from typica.scale._ray_images import Extractor
from typica.scale._tables import field_of
from typica.scale._worker_jobs import Job, Judging, Outcome, attempt, merge_outcomes

__all__ = ["Extractor", "RayCluster", "Scorer", "calibrate", "connect", "fit", "score"]

_FAN = 16  # states that are merged at a time
# Of a CPU, for each level of the tree: what asks for equal shares would be fused into one task.
_SHARES = (0.99, 0.98)


@border
def fit(
    detector: Detector,
    data: Any,
    labels: Any = None,
    *,
    features: str | None = None,
    columns: Sequence[str] | None = None,
    sample: int | None = None,
) -> Detector:
    """Fit a detector on a data set of Ray, or on files that workers read.

    labels: a column; of files, what `typica.scale.fit` takes. features, columns, sample: as it
    takes them. The rows of a data set have no numbers: those of a sample, and of the provisional
    threshold of more than 2,048, are others each time. Rows of files are known by file and row.
    """
    dataset = need("ray.data", "ray").Dataset
    named: dict[str, Any] = {"features": features, "columns": columns, "labels": labels}
    if not isinstance(data, dataset):
        return fit_counted(detector, data, **named, sample=sample, engine=RayCluster()).detector
    learner = Learner(detector, sample)
    wanted = Wanted(**named, find_labels=reads_labels(detector))
    opened = opened_columns(_schema(data), wanted, head_width(detector))
    check_learning(learner, Known(opened.labels is not None))
    return learn(learner, _over(data, opened)).finish()


@border
def calibrate(
    estimator: Any,
    data: Any,
    *,
    features: str | None = None,
    columns: Sequence[str] | None = None,
    **options: Any,
) -> Any:
    """Calibrate a fitted detector, or a Pipeline that ends in one, on held-out rows.

    data, features, columns: as `fit` takes them. options: alpha or tpr, confidence, by_class and
    groups, those of `Detector.calibrate`. The estimator is changed and returned.
    """
    dataset = need("ray.data", "ray").Dataset
    named: dict[str, Any] = {"features": features, "columns": columns}
    if not isinstance(data, dataset):
        return _fit.calibrate(estimator, data, **named, **options, engine=RayCluster())
    opened = opened_columns(_schema(data), Wanted(**named), width_of(estimator))
    calibrator = Calibrator.begin(estimator, **options)
    return take_scores(calibrator, _over(data, opened)).finish()


@border
def score(
    estimator: Any,
    data: Any,
    output: str | os.PathLike[str] | None = None,
    *,
    features: str | None = None,
    columns: Sequence[str] | None = None,
    ids: str | None = None,
    **options: Any,
) -> Any:
    """Judge rows: a data set of verdicts, which is computed when it is asked for.

    data, features, columns: as `fit` takes them. ids: a column to pass on. Files are judged to a
    folder `output`, as by `typica.scale.score`. options: alpha or tpr, confidence and only, those
    of `Judge`.
    """
    dataset = need("ray.data", "ray").Dataset
    named: dict[str, Any] = {"features": features, "columns": columns, "ids": ids}
    if not isinstance(data, dataset):
        return _score.score(estimator, data, output, **named, **options, engine=RayCluster())
    if output is not None:
        raise InputError(
            f"{argument('output')} is for files; write what this returns, write_parquet."
        )
    schema = _schema(data)
    opened = opened_columns(schema, Wanted(**named), width_of(estimator))
    judge = Judge(estimator, field_of(schema, ids), **options)
    judged = partial(_judged_block, Judging.by(judge), opened)
    return data.map_batches(judged, batch_size=None, batch_format="pyarrow")


class Scorer:
    """Judges batches of rows: a callable class for `Dataset.map_batches`.

        verdicts = rows.map_batches(
            Scorer,
            fn_constructor_kwargs={"detector": "ctm.safetensors", "features": "embedding"},
            batch_format="pyarrow",
            compute=ray.data.ActorPoolStrategy(size=4),
        )

    Each actor reads the detector once. detector: its file, where the workers see it, or what
    `typica.store.to_bytes` makes of it. features, columns, ids, options: as `score` takes them. A
    batch becomes its verdicts, with the ids before them.
    """

    @border
    def __init__(
        self,
        detector: str | os.PathLike[str] | bytes,
        features: str | None = None,
        columns: Sequence[str] | None = None,
        ids: str | None = None,
        **options: Any,
    ) -> None:
        if isinstance(detector, bytes):
            self.estimator = store.from_bytes(detector)
        else:
            self.estimator = load_detector(os.fspath(detector))
        self.wanted = Wanted(features, columns, ids=ids)
        self.options = options

    @border
    def __call__(self, table: Any) -> Any:
        """Return the verdicts on a table of Arrow."""
        opened = opened_columns(table.schema, self.wanted, width_of(self.estimator))
        judge = Judge(self.estimator, field_of(table.schema, self.wanted.ids), **self.options)
        return _judged(VerdictsOf(judge, opened), table)


class RayCluster:
    """Workers of the Ray that this process is connected to; it connects where it is not."""

    def map(self, work: Work, tasks: Sequence[bytes]) -> Iterator[bytes]:
        """Yield what comes of each task, in order."""
        states = _each(_sent(tasks), partial(_task_state, work), 1)
        states.context.execution_options.preserve_order = True
        yield from (outcome.value() for outcome in _outcomes(states))

    def reduce(self, work: Work, merge: Merge, tasks: Sequence[bytes]) -> bytes:
        """Return what comes of all tasks, merged in a tree by the workers."""
        states = _each(_sent(tasks), partial(_task_state, work), 1)
        return merge_outcomes(merge, _outcomes(_merged(states, merge))).value()


@contextlib.contextmanager
def connect(address: str | None = None) -> Iterator[RayCluster]:
    """Open the cluster at an address, or a local one that ends with the block."""
    ray = need("ray", "ray")
    if ray.is_initialized():
        yield RayCluster()
        return
    quietly = {"log_to_driver": False, "logging_level": logging.ERROR}
    local = {"include_dashboard": False} if address is None else {}
    try:
        with unheard_interrupts():
            ray.init(address or "local", **quietly, **local)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise no_answer(address, error) from None
    need("ray.data", "ray").DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # which importing it has set
    try:
        yield RayCluster()
    finally:
        ray.shutdown()


def _sent(tasks: Sequence[bytes]) -> Any:
    """Return tasks as a data set of one block each."""
    arrow = need("pyarrow", "ray")
    return need("ray.data", "ray").from_arrow([arrow.table({"task": [task]}) for task in tasks])


def _over(data: Any, columns: Columns) -> Reduce:
    """Return what does a job on all blocks of a data set."""
    rows = data.select_columns(columns.names)

    def reduce(job: Job) -> bytes:
        states = _each(rows, partial(_block_state, job, columns), None)
        none = Outcome(job.state([]), None)
        outcomes = itertools.chain([none], _outcomes(_merged(states, job.merge)))
        return merge_outcomes(job.merge, outcomes).value()

    return reduce


def _each(data: Any, function: Callable[[Any], Outcome], size: int | None) -> Any:
    """Return a data set of what comes of each batch of rows, or of each block."""
    return data.map_batches(partial(_applied, function), batch_size=size, batch_format="pyarrow")


def _applied(function: Callable[[Any], Outcome], table: Any) -> Any:
    arrow = need("pyarrow", "ray")
    schema = arrow.schema({"state": arrow.large_binary(), "error": arrow.string()})
    return arrow.Table.from_pylist([function(table)._asdict()], schema=schema)


def _task_state(work: Work, table: Any) -> Outcome:
    return attempt(lambda: work(table["task"][0].as_py()))


def _block_state(job: Job, columns: Columns, table: Any) -> Outcome:
    """Return what comes of a block; its rows are known by a task of Ray, and the block there."""
    task = need("ray", "ray").get_runtime_context().get_task_id()
    _blocks_of[task] = block = _blocks_of.pop(task, 0) + 1
    source, name = f"{task} {block}", f"a block of {len(table)} rows"
    records = table.combine_chunks().to_batches()
    return attempt(lambda: job.state(read_records(records, columns, source, name=name)))


_blocks_of: dict[str, int] = {}  # how many blocks each task of this process was given


def _merged(states: Any, merge: Merge) -> Any:
    """Return a data set of fewer states, merged some at a time in two levels."""
    for share in _SHARES:
        states = states.map_batches(
            partial(_applied, partial(_merged_table, merge)),
            batch_size=_FAN,
            batch_format="pyarrow",
            num_cpus=share,
        )
    return states


def _merged_table(merge: Merge, table: Any) -> Outcome:
    return merge_outcomes(merge, (Outcome(**row) for row in table.to_pylist()))


def _outcomes(states: Any) -> Iterator[Outcome]:
    for row in states.iter_rows():
        yield Outcome(**row)


def _judged_block(judging: Judging, columns: Columns, table: Any) -> Any:
    return _judged(VerdictsOf(judging.judge(), columns), table)


def _judged(verdicts: VerdictsOf, table: Any) -> Any:
    arrow = need("pyarrow", "ray")
    records = table.combine_chunks().to_batches()
    return arrow.Table.from_batches(verdicts(records), verdicts.schema)


def _schema(data: Any) -> Any:
    """Return the Arrow schema of a data set."""
    found = data.schema()
    if found is None:
        raise InputError("the data set has no rows, and no columns; pass one that has.")
    arrow = need("pyarrow", "ray")
    return arrow.schema(list(zip(found.names, found.types, strict=True)))
