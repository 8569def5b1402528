"""Workers of a Spark session, or of Spark Connect."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from typica.extras import need
from typica.scale._engines import Merge, Work
from typica.scale._spark_states import (
    STATES,
    levels_for,
    merge_on_workers,
    merged_outcomes,
    outcome_of,
    record_of,
    rows_of,
)
from typica.scale._worker_jobs import Outcome, attempt, merge_outcomes


class SparkCluster:
    """Workers of a Spark session; None uses the active one, or makes one."""

    def __init__(self, session: Any = None) -> None:
        self.session = session or need("pyspark.sql", "spark").SparkSession.builder.getOrCreate()

    def map(self, work: Work, tasks: Sequence[bytes]) -> Iterator[bytes]:
        """Yield the result of each task, in order."""
        outcomes = self._spread(tasks).map(partial(_attempted, work)).collect()
        for outcome in outcomes:
            yield Outcome(*outcome).value()

    def reduce(self, work: Work, merge: Merge, tasks: Sequence[bytes]) -> bytes:
        """Return the results of all tasks, merged in a tree by the workers."""
        states = self._spread(tasks).map(partial(_attempted, work))
        for count in levels_for(len(tasks)):
            states = states.repartition(count).mapPartitions(partial(merged_outcomes, merge))
        return merge_outcomes(merge, itertools.starmap(Outcome, states.collect())).value()

    def _spread(self, tasks: Sequence[bytes]) -> Any:
        """Return the tasks as an RDD, each in a partition of its own.

        With a data frame, Spark takes several times as long for each.
        """
        return self.session.sparkContext.parallelize(tasks, len(tasks))


class FrameCluster(SparkCluster):
    """Workers of a Spark Connect session, which has data frames but no RDDs."""

    def map(self, work: Work, tasks: Sequence[bytes]) -> Iterator[bytes]:
        """Yield the result of each task, in order."""
        for row in sorted(self._states(work, tasks).collect(), key=lambda row: row.id):
            yield outcome_of(row).value()

    def reduce(self, work: Work, merge: Merge, tasks: Sequence[bytes]) -> bytes:
        """Return the results of all tasks, merged in a tree by the workers."""
        states = self._states(work, tasks).drop("id")
        merged = merge_on_workers(states, merge, levels_for(len(tasks)))
        return merge_outcomes(merge, merged).value()

    def _states(self, work: Work, tasks: Sequence[bytes]) -> Any:
        """Return a data frame with the results of the tasks, each in a partition of its own."""
        functions = need("pyspark.sql.functions", "spark")
        numbers = self.session.range(0, len(tasks), 1, len(tasks))
        rows = [(number, bytearray(task)) for number, task in enumerate(tasks)]
        table = self.session.createDataFrame(rows, "id long, task binary")
        sent = numbers.join(functions.broadcast(table), "id")
        return sent.mapInArrow(partial(_task_states, work), f"id long, {STATES}")


def cluster_of(session: Any = None) -> SparkCluster:
    """Return the workers of a session; None uses the active one, or makes one."""
    is_plain = session is None or hasattr(session, "sparkContext")
    return SparkCluster(session) if is_plain else FrameCluster(session)


# On the workers


def _attempted(work: Work, task: bytes) -> tuple[bytes | None, str | None]:
    outcome = attempt(partial(work, task))
    return outcome.state, outcome.error


def _task_states(work: Work, records: Iterable[Any]) -> Iterator[Any]:
    for row in rows_of(records):
        yield record_of(attempt(partial(work, row["task"])), id=[row["id"]])
