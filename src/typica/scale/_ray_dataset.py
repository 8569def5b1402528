"""Data sets of Ray: what is in them, jobs on their blocks, verdicts on their rows."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

from typica.errors import InputError
from typica.extras import need
from typica.scale._batches import read_records
from typica.scale._columns import Columns
from typica.scale._judge import VerdictsOf
from typica.scale._on_cluster import Reduce
from typica.scale._ray_states import merge_on_workers, outcomes_of, states_of
from typica.scale._worker_jobs import Job, Judging, Outcome, attempt, merge_outcomes


def is_dataset(data: Any) -> bool:
    """Tell whether data is a Ray data set, and not names of files."""
    return isinstance(data, need("ray.data", "ray").Dataset)


class RayDataset:
    """A data set of Ray."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def schema(self) -> Any:
        """Return the Arrow schema."""
        found = self.data.schema()
        if found is None:
            raise InputError("the data set has no rows, and no columns; pass one that has.")
        arrow = need("pyarrow", "ray")
        return arrow.schema(list(zip(found.names, found.types, strict=True)))

    def over(self, columns: Columns) -> Reduce:
        """Return a function that does a job on all blocks."""
        rows = self.data.select_columns(columns.names)

        def reduce(job: Job) -> bytes:
            states = states_of(rows, _BlockStates(job, columns), None)
            none = Outcome(job.state([]), None)
            outcomes = itertools.chain([none], outcomes_of(merge_on_workers(states, job.merge)))
            return merge_outcomes(job.merge, outcomes).value()

        return reduce

    def judged(self, judging: Judging, columns: Columns) -> Any:
        """Return a data set of verdicts, which is computed when it is asked for."""
        judged = partial(_judged_block, judging, columns)
        return self.data.map_batches(judged, batch_size=None, batch_format="pyarrow")


def judge_table(verdicts: VerdictsOf, table: Any) -> Any:
    """Return the verdicts on a block of a Ray data set; both are Arrow tables."""
    arrow = need("pyarrow", "ray")
    records = table.combine_chunks().to_batches()
    return arrow.Table.from_batches(verdicts(records), verdicts.schema)


# On the workers


class _BlockStates:
    """Returns the result of each block; rows are identified by Ray's task, and the block in it.

    Each task unpickles one of its own, so that a task that is tried again counts from the start.
    """

    def __init__(self, job: Job, columns: Columns) -> None:
        self.job = job
        self.columns = columns
        self.blocks = 0

    def __call__(self, table: Any) -> Outcome:
        task = need("ray", "ray").get_runtime_context().get_task_id()
        self.blocks += 1
        source, name = f"{task} {self.blocks}", f"a block of {len(table)} rows"
        records = table.combine_chunks().to_batches()
        rows = read_records(records, self.columns, source, name=name)
        return attempt(lambda: self.job.state(rows))


def _judged_block(judging: Judging, columns: Columns, table: Any) -> Any:
    return judge_table(VerdictsOf(judging.judge(), columns), table)
