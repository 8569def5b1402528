"""Workers of Ray: of a cluster at an address, or of a local one."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from typica.extras import need
from typica.machine import unheard_interrupts
from typica.scale._engines import Merge, Work, no_answer
from typica.scale._ray_states import merge_on_workers, outcomes_of, states_of
from typica.scale._worker_jobs import Outcome, attempt, merge_outcomes


class RayCluster:
    """Workers of the Ray that this process is connected to; if it is not, Ray connects it."""

    def map(self, work: Work, tasks: Sequence[bytes]) -> Iterator[bytes]:
        """Yield the result of each task, in order."""
        states = states_of(_sent(tasks), partial(_task_state, work), 1)
        states.context.execution_options.preserve_order = True
        yield from (outcome.value() for outcome in outcomes_of(states))

    def reduce(self, work: Work, merge: Merge, tasks: Sequence[bytes]) -> bytes:
        """Return the results of all tasks, merged in a tree by the workers."""
        states = states_of(_sent(tasks), partial(_task_state, work), 1)
        merged = merge_on_workers(states, merge, len(tasks))
        return merge_outcomes(merge, outcomes_of(merged)).value()


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
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # importing it has set another level
    try:
        yield RayCluster()
    finally:
        ray.shutdown()


def _sent(tasks: Sequence[bytes]) -> Any:
    """Return tasks as a data set of one block each."""
    arrow = need("pyarrow", "ray")
    return need("ray.data", "ray").from_arrow([arrow.table({"task": [task]}) for task in tasks])


def _task_state(work: Work, table: Any) -> Outcome:
    return attempt(lambda: work(table["task"][0].as_py()))
