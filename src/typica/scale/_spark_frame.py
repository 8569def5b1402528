"""Data frames of Spark: what is in them, jobs on their partitions, verdicts on their rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from typica.extras import need
from typica.scale._batches import read_records
from typica.scale._columns import Columns
from typica.scale._judge import VerdictsOf
from typica.scale._on_cluster import Reduce
from typica.scale._spark_states import LEVELS, STATES, merge_on_workers, record_of
from typica.scale._worker_jobs import Job, Judging, Outcome, attempt, merge_outcomes


def is_frame(data: Any) -> bool:
    """Tell whether data is a Spark or Spark Connect data frame, and not names of files."""
    need("pyspark", "spark")
    return hasattr(data, "mapInArrow") and hasattr(data, "schema")


class SparkFrame:
    """A data frame of Spark or Spark Connect."""

    def __init__(self, data: Any) -> None:
        self.data = data
        self.types = need("pyspark.sql.pandas.types", "spark")

    def schema(self) -> Any:
        """Return the Arrow schema."""
        return self.types.to_arrow_schema(self.data.schema)

    def over(self, columns: Columns) -> Reduce:
        """Return a function that does a job on all partitions."""
        rows = self.data.select(*columns.names)

        def reduce(job: Job) -> bytes:
            states = rows.mapInArrow(partial(_partition_states, job, columns), STATES)
            none = Outcome(job.state([]), None)
            outcomes = itertools.chain([none], merge_on_workers(states, job.merge, LEVELS))
            return merge_outcomes(job.merge, outcomes).value()

        return reduce

    def judged(self, judging: Judging, columns: Columns) -> Any:
        """Return a data frame of verdicts, which is computed when it is asked for."""
        made = self.types.from_arrow_schema(VerdictsOf(judging.judge(), columns).schema)
        rows = self.data.select(*columns.names)
        return rows.mapInArrow(partial(_judged, judging, columns), made)


# On the workers


def _partition_states(job: Job, columns: Columns, records: Iterable[Any]) -> Iterator[Any]:
    """Yield the result of a partition; its number and their place in it identify its rows."""
    name = f"partition {need('pyspark', 'spark').TaskContext.get().partitionId()}"
    batches = read_records(records, columns, name, name=name)
    yield record_of(attempt(lambda: job.state(batches)))


def _judged(judging: Judging, columns: Columns, records: Iterable[Any]) -> Iterator[Any]:
    return VerdictsOf(judging.judge(), columns)(records)
