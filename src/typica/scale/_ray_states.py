"""States on Ray: rows of a data set with bytes, or with what is wrong, merged in a tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from typica.extras import need
from typica.scale._engines import Merge
from typica.scale._worker_jobs import Outcome, merge_outcomes

_FAN = 16  # states that are merged at a time
# Shares of a CPU, for each level of the tree: Ray would fuse equal ones into one task.
_SHARES = (0.99, 0.98)


def states_of(data: Any, function: Callable[[Any], Outcome], size: int | None) -> Any:
    """Return a data set with the result of each batch of rows, or of each block."""
    return data.map_batches(partial(_applied, function), batch_size=size, batch_format="pyarrow")


def _applied(function: Callable[[Any], Outcome], table: Any) -> Any:
    arrow = need("pyarrow", "ray")
    schema = arrow.schema({"state": arrow.large_binary(), "error": arrow.string()})
    return arrow.Table.from_pylist([function(table)._asdict()], schema=schema)


def merge_on_workers(states: Any, merge: Merge, n: int | None = None) -> Any:
    """Return a data set of fewer states, merged some at a time in two levels.

    n: how many there are, if that is known: those that can be merged at once take one level.
    """
    few = n is not None and n <= _FAN
    for share in _SHARES[:1] if few else _SHARES:
        states = states.map_batches(
            partial(_applied, partial(_merged_table, merge)),
            batch_size=_FAN,
            batch_format="pyarrow",
            num_cpus=share,
        )
    return states


def _merged_table(merge: Merge, table: Any) -> Outcome:
    return merge_outcomes(merge, (Outcome(**row) for row in table.to_pylist()))


def outcomes_of(states: Any) -> Iterator[Outcome]:
    """Yield the outcome of each task, or of those that were merged."""
    for row in states.iter_rows():
        yield Outcome(**row)
