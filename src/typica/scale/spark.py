"""Fits, calibrations and scores on Spark: its data frames, its SQL, and files that workers read.

    from typica.scale import spark as on_spark

    detector = on_spark.fit(CTM(), frame, "label", features="embedding")
    on_spark.calibrate(detector, held_out, features="embedding", alpha=0.05)
    verdicts = on_spark.score(detector, frame, features="embedding", ids="id")

    session.udf.register("typicality", on_spark.udf(detector))
    session.sql("SELECT id, typicality(embedding) FROM photos")

Partitions become states by `mapInArrow`, which are merged in a tree of as many levels as it takes;
a session of Spark Connect will do. What is retried or moved is Spark's affair: a worker that dies
changes nothing in the result.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from typica.detectors import Detector
from typica.errors import InputError, argument, border, listed
from typica.extras import need
from typica.scale import _fit, _score
from typica.scale._batches import read_records
from typica.scale._calibrator import Calibrator
from typica.scale._columns import Columns, Wanted, opened_columns
from typica.scale._engines import Merge, Work, no_answer, unheard_interrupts
from typica.scale._fit import Known, check_learning, fit_counted, head_width, reads_labels, width_of
from typica.scale._judge import DECIDED, Judge, VerdictsOf
from typica.scale._learner import Learner
from typica.scale._on_cluster import Reduce, learn, take_scores
from typica.scale._tables import field_of
from typica.scale._worker_jobs import Job, Judging, Outcome, attempt, merge_outcomes

_FAN = 16  # states that are merged at a time
_LEVELS = (_FAN,)  # of the tree, where nobody knows how many partitions there are
_STATES = "state binary, error string"

T = TypeVar("T")


@border
def fit(
    detector: Detector,
    data: Any,
    labels: Any = None,
    session: Any = None,
    *,
    features: str | None = None,
    columns: Sequence[str] | None = None,
    sample: int | None = None,
) -> Detector:
    """Fit a detector on a data frame of Spark, or on files that workers read.

    labels: a column; of files, what `typica.scale.fit` takes. session: for files, None takes the
    active one. features, columns, sample: as `typica.scale.fit` takes them. Rows of a data frame
    are known by partition and place there: those of a sample, and of the provisional threshold of
    more than 2,048, depend on the partitions. Rows of files are known by file and row.
    """
    named: dict[str, Any] = {"features": features, "columns": columns, "labels": labels}
    if not _is_frame(data):
        cluster = cluster_of(session)
        return fit_counted(detector, data, **named, sample=sample, engine=cluster).detector
    learner = Learner(detector, sample)
    wanted = Wanted(**named, find_labels=reads_labels(detector))
    opened = opened_columns(_schema(data), wanted, head_width(detector))
    check_learning(learner, Known(opened.labels is not None))
    return learn(learner, _over(data, opened)).finish()


@border
def calibrate(
    estimator: Any,
    data: Any,
    session: Any = None,
    *,
    features: str | None = None,
    columns: Sequence[str] | None = None,
    **options: Any,
) -> Any:
    """Calibrate a fitted detector, or a Pipeline that ends in one, on held-out rows.

    data, session, features, columns: as `fit` takes them. options: alpha or tpr, confidence,
    by_class and groups, those of `Detector.calibrate`. The estimator is changed and returned.
    """
    named: dict[str, Any] = {"features": features, "columns": columns}
    if not _is_frame(data):
        return _fit.calibrate(estimator, data, **named, **options, engine=cluster_of(session))
    opened = opened_columns(_schema(data), Wanted(**named), width_of(estimator))
    calibrator = Calibrator.begin(estimator, **options)
    return take_scores(calibrator, _over(data, opened)).finish()


@border
def score(
    estimator: Any,
    data: Any,
    output: str | os.PathLike[str] | None = None,
    session: Any = None,
    *,
    features: str | None = None,
    columns: Sequence[str] | None = None,
    ids: str | None = None,
    **options: Any,
) -> Any:
    """Judge rows: a data frame of verdicts, which is computed when it is asked for.

    data, session, features, columns: as `fit` takes them. ids: a column to pass on. Files are
    judged to a folder `output`, as by `typica.scale.score`. options: alpha or tpr, confidence and
    only, those of `Judge`.
    """
    named: dict[str, Any] = {"features": features, "columns": columns, "ids": ids}
    if not _is_frame(data):
        wanted = {**named, **options, "engine": cluster_of(session)}
        return _score.score(estimator, data, output, **wanted)
    if output is not None:
        raise InputError(
            f"{argument('output')} is for files; write what this returns, write.parquet."
        )
    schema = _schema(data)
    opened = opened_columns(schema, Wanted(**named), width_of(estimator))
    judge = Judge(estimator, field_of(schema, ids), **options)
    types = need("pyspark.sql.pandas.types", "spark")
    made = types.from_arrow_schema(VerdictsOf(judge, opened).schema)
    judged = partial(_judged, Judging.by(judge), opened)
    return data.select(*opened.names).mapInArrow(judged, made)


@border
def udf(estimator: Any, column: str | None = "score", **options: Any) -> Any:
    """Return a function of a column of arrays, for `DataFrame.select` or to register for SQL.

        session.udf.register("typicality", udf(detector))
        session.sql("SELECT id, typicality(embedding) FROM photos")

    column: of the verdicts, score, verdict, p_value, nearest, runner_up or margin; None is all of
    them, as a struct. options: as `score` takes them, without only. Null gives null.
    """
    if column not in (None, *DECIDED):
        raise InputError(f"column={column!r}: choose one of {listed(DECIDED)}, or None for all.")
    verdicts = VerdictsOf(Judge(estimator, **options), Columns("features"))
    types = need("pyspark.sql.pandas.types", "spark")
    struct = types.from_arrow_schema(verdicts.schema)
    made = struct if column is None else struct[column].dataType
    judged = partial(_judged_series, Judging.by(verdicts.judge), column)

    def typicality(features: Any) -> Any:
        return judged(features)

    pandas = need("pandas", "spark")
    given = pandas.DataFrame if column is None else pandas.Series
    typicality.__annotations__ = {"features": pandas.Series, "return": given}
    return need("pyspark.sql.functions", "spark").pandas_udf(typicality, made)


class SparkCluster:
    """Workers of a session of Spark; None takes the active one, or makes one."""

    def __init__(self, session: Any = None) -> None:
        self.session = session or need("pyspark.sql", "spark").SparkSession.builder.getOrCreate()

    def map(self, work: Work, tasks: Sequence[bytes]) -> Iterator[bytes]:
        """Yield what comes of each task, in order."""
        outcomes = self._spread(tasks).map(partial(_attempted, work)).collect()
        for outcome in outcomes:
            yield Outcome(*outcome).value()

    def reduce(self, work: Work, merge: Merge, tasks: Sequence[bytes]) -> bytes:
        """Return what comes of all tasks, merged in a tree by the workers."""
        states = self._spread(tasks).map(partial(_attempted, work))
        for count in _levels(len(tasks)):
            states = states.repartition(count).mapPartitions(partial(_merged_outcomes, merge))
        return merge_outcomes(merge, itertools.starmap(Outcome, states.collect())).value()

    def _spread(self, tasks: Sequence[bytes]) -> Any:
        """Return the tasks as an RDD, each in a partition of its own.

        Of a data frame of them Spark takes several times as long for each.
        """
        return self.session.sparkContext.parallelize(tasks, len(tasks))


class FrameCluster(SparkCluster):
    """Workers of a session of Spark Connect, which has data frames, but no RDDs."""

    def map(self, work: Work, tasks: Sequence[bytes]) -> Iterator[bytes]:
        """Yield what comes of each task, in order."""
        for row in sorted(self._states(work, tasks).collect(), key=lambda row: row.id):
            yield _outcome(row).value()

    def reduce(self, work: Work, merge: Merge, tasks: Sequence[bytes]) -> bytes:
        """Return what comes of all tasks, merged in a tree by the workers."""
        states = self._states(work, tasks).drop("id")
        return merge_outcomes(merge, _merged(states, merge, _levels(len(tasks)))).value()

    def _states(self, work: Work, tasks: Sequence[bytes]) -> Any:
        """Return a data frame of what comes of the tasks, each in a partition of its own."""
        functions = need("pyspark.sql.functions", "spark")
        numbers = self.session.range(0, len(tasks), 1, len(tasks))
        rows = [(number, bytearray(task)) for number, task in enumerate(tasks)]
        table = self.session.createDataFrame(rows, "id long, task binary")
        sent = numbers.join(functions.broadcast(table), "id")
        return sent.mapInArrow(partial(_task_states, work), f"id long, {_STATES}")


def cluster_of(session: Any = None) -> SparkCluster:
    """Return the workers of a session; None takes the active one, or makes one."""
    is_plain = session is None or hasattr(session, "sparkContext")
    return SparkCluster(session) if is_plain else FrameCluster(session)


@contextlib.contextmanager
def connect(address: str | None = None) -> Iterator[Any]:
    """Open a session at an address, or a local one that ends with the block.

    address: a master (spark://host:7077, yarn, local[4]), or a server of Spark Connect (sc://...).
    """
    builder = need("pyspark.sql", "spark").SparkSession.builder
    active = need("pyspark.sql", "spark").SparkSession.getActiveSession()
    if active is not None:
        yield cluster_of(active)
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
        try:
            with _without_chatter(), unheard_interrupts():
                session = _built(builder.appName("typica"), address).getOrCreate()
        except Exception as error:  # of every kind, by Java and by gRPC
            raise no_answer(address, error) from None
        try:
            yield _Interruptible(cluster_of(session))
        finally:
            session.stop()


class _Interruptible:
    """Does the work in a thread, so that Ctrl-C comes through: Java's answers wait for no one."""

    def __init__(self, cluster: SparkCluster) -> None:
        self.cluster = cluster
        self.session = cluster.session

    def map(self, work: Work, tasks: Sequence[bytes]) -> Iterator[bytes]:
        """Yield what comes of each task, in order."""
        yield from self._done(lambda: list(self.cluster.map(work, tasks)))

    def reduce(self, work: Work, merge: Merge, tasks: Sequence[bytes]) -> bytes:
        """Return what comes of all tasks, merged in a tree by the workers."""
        return self._done(lambda: self.cluster.reduce(work, merge, tasks))

    def _done(self, function: Callable[[], T]) -> T:
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(function())
            except BaseException as error:  # for the caller to raise
                done.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        return done.result()


@contextlib.contextmanager
def _without_chatter() -> Iterator[None]:
    """Let the Java that is started in the block write its lines of warning nowhere."""
    before = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(nowhere)


def _built(builder: Any, address: str | None) -> Any:
    if address is not None and address.startswith("sc://"):
        return builder.remote(address)
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "FATAL",
    }
    master = address or "local[*,4]"  # a task is given up when it has failed four times
    if master.startswith("local"):
        # Its workers are this machine's, and start this very Python.
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        }
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.master(master)


def _is_frame(data: Any) -> bool:
    """Tell a data frame of Spark, of a session here or of Spark Connect, from what names files."""
    need("pyspark", "spark")
    return hasattr(data, "mapInArrow") and hasattr(data, "schema")


def _schema(data: Any) -> Any:
    """Return the Arrow schema of a data frame."""
    return need("pyspark.sql.pandas.types", "spark").to_arrow_schema(data.schema)


def _over(data: Any, columns: Columns) -> Reduce:
    """Return what does a job on all partitions of a data frame."""
    rows = data.select(*columns.names)

    def reduce(job: Job) -> bytes:
        states = rows.mapInArrow(partial(_partition_states, job, columns), _STATES)
        none = Outcome(job.state([]), None)
        outcomes = itertools.chain([none], _merged(states, job.merge, _LEVELS))
        return merge_outcomes(job.merge, outcomes).value()

    return reduce


def _levels(tasks: int) -> list[int]:
    """Return how many states there are after each level of the tree, for so many tasks.

    >>> _levels(16), _levels(1000)
    ([], [63, 4])
    """
    counts = []
    while tasks > _FAN:
        tasks = -(-tasks // _FAN)
        counts.append(tasks)
    return counts


def _merged(states: Any, merge: Merge, levels: Sequence[int]) -> Iterator[Outcome]:
    """Yield what is left of the states when the workers have merged them level by level."""
    for count in levels:
        states = states.repartition(count).mapInArrow(partial(_merged_states, merge), _STATES)
    for row in states.collect():
        yield _outcome(row)


def _outcome(row: Any) -> Outcome:
    return Outcome(None if row.state is None else bytes(row.state), row.error)


# On the workers


def _rows(records: Iterable[Any]) -> Iterator[dict[str, Any]]:
    for record in records:
        yield from record.to_pylist()


def _record(*outcomes: Outcome, **columns: Any) -> Any:
    arrow = need("pyarrow", "spark")
    kinds = {"id": arrow.int64(), "state": arrow.binary(), "error": arrow.string()}
    values = {**columns, "state": [o.state for o in outcomes], "error": [o.error for o in outcomes]}
    arrays = [arrow.array(found, kinds[name]) for name, found in values.items()]
    return arrow.RecordBatch.from_arrays(arrays, list(values))


def _attempted(work: Work, task: bytes) -> tuple[bytes | None, str | None]:
    outcome = attempt(partial(work, task))
    return outcome.state, outcome.error


def _merged_outcomes(merge: Merge, found: Iterable[Any]) -> Iterator[Any]:
    """Yield what comes of a partition's outcomes, where it has any."""
    outcomes = itertools.starmap(Outcome, found)
    first = next(outcomes, None)
    if first is not None:
        yield tuple(merge_outcomes(merge, itertools.chain([first], outcomes)))


def _task_states(work: Work, records: Iterable[Any]) -> Iterator[Any]:
    for row in _rows(records):
        yield _record(attempt(partial(work, row["task"])), id=[row["id"]])


def _partition_states(job: Job, columns: Columns, records: Iterable[Any]) -> Iterator[Any]:
    """Yield what comes of a partition, whose rows are known by its number and their place there."""
    name = f"partition {need('pyspark', 'spark').TaskContext.get().partitionId()}"
    batches = read_records(records, columns, name, name=name)
    yield _record(attempt(lambda: job.state(batches)))


def _merged_states(merge: Merge, records: Iterable[Any]) -> Iterator[Any]:
    rows = (tuple(row.values()) for row in _rows(records))
    for outcome in _merged_outcomes(merge, rows):
        yield _record(Outcome(*outcome))


def _judged(judging: Judging, columns: Columns, records: Iterable[Any]) -> Iterator[Any]:
    return VerdictsOf(judging.judge(), columns)(records)


def _judged_series(judging: Judging, column: str | None, series: Any) -> Any:
    """Return the verdicts on a series of arrays, with null for null."""
    arrow, pandas = need("pyarrow", "spark"), need("pandas", "spark")
    there = series.notna().to_numpy()
    rows = arrow.array(series[there].tolist())
    verdicts = VerdictsOf(judging.judge(), Columns("features"))
    record = arrow.RecordBatch.from_arrays([rows], ["features"])
    made = arrow.Table.from_batches(verdicts([record]), verdicts.schema).to_pandas()
    made.index = pandas.RangeIndex(len(series))[there]
    whole = made.reindex(pandas.RangeIndex(len(series)))
    return whole if column is None else whole[column]
