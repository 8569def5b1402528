"""States on Spark: rows of a data frame with bytes, or with what is wrong, merged in a tree."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from typica.extras import need
from typica.scale._engines import Merge
from typica.scale._worker_jobs import Outcome, merge_outcomes

STATES = "state binary, error string"
LEVELS = (16,)  # of the tree, if the number of partitions is not known
_FAN = 16  # states that are merged at a time


def levels_for(tasks: int) -> list[int]:
    """Return how many states there are after each level of the tree, for this many tasks.

    >>> levels_for(16), levels_for(1000)
    ([], [63, 4])
    """
    counts = []
    while tasks > _FAN:
        tasks = -(-tasks // _FAN)
        counts.append(tasks)
    return counts


def merge_on_workers(states: Any, merge: Merge, levels: Sequence[int]) -> Iterator[Outcome]:
    """Yield the states that remain after the workers have merged them level by level."""
    for count in levels:
        states = states.repartition(count).mapInArrow(partial(_merged_states, merge), STATES)
    for row in states.collect():
        yield outcome_of(row)


def outcome_of(row: Any) -> Outcome:
    """Return the outcome of a task that a row of a data frame holds."""
    return Outcome(None if row.state is None else bytes(row.state), row.error)


# On the workers


def rows_of(records: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield the rows of record batches that Spark hands to a task."""
    for record in records:
        yield from record.to_pylist()


def record_of(*outcomes: Outcome, **columns: Any) -> Any:
    """Return a record batch of the outcomes of tasks; columns: further ones, by name."""
    arrow = need("pyarrow", "spark")
    kinds = {"id": arrow.int64(), "state": arrow.binary(), "error": arrow.string()}
    values = {**columns, "state": [o.state for o in outcomes], "error": [o.error for o in outcomes]}
    arrays = [arrow.array(found, kinds[name]) for name, found in values.items()]
    return arrow.RecordBatch.from_arrays(arrays, list(values))


def merged_outcomes(merge: Merge, found: Iterable[Any]) -> Iterator[Any]:
    """Yield a partition's outcomes, merged, if it has any."""
    outcomes = itertools.starmap(Outcome, found)
    first = next(outcomes, None)
    if first is not None:
        yield tuple(merge_outcomes(merge, itertools.chain([first], outcomes)))


def _merged_states(merge: Merge, records: Iterable[Any]) -> Iterator[Any]:
    rows = (tuple(row.values()) for row in rows_of(records))
    for outcome in merged_outcomes(merge, rows):
        yield record_of(Outcome(*outcome))
