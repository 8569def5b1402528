"""Workers of Dask, of a cluster at an address or of a local one."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from typing import Any

from typica.extras import need
from typica.machine import unheard_interrupts
from typica.scale._dask_rows import Read, Rows
from typica.scale._engines import PATIENCE, Merge, Work, no_answer
from typica.scale._on_cluster import Reduce
from typica.scale._worker_jobs import Job

_FAN = 8  # states that are merged at a time
_MANY = 2  # tasks per thread; Dask treats more than that as root tasks, and deals them out
_LARGE = 2**20  # bytes; larger work is not sent more often than necessary


class DaskCluster:
    """Workers of Dask: those of a client, or of Dask's scheduler in this process."""

    def __init__(self, client: Any = None) -> None:
        self.client = client

    def map(self, work: Work, tasks: Sequence[bytes]) -> Iterator[bytes]:
        """Yield the result of each task, in order."""
        yield from _computed(self._calls(work, tasks), self.client)

    def reduce(self, work: Work, merge: Merge, tasks: Sequence[bytes]) -> bytes:
        """Return the results of all tasks, merged in a tree by the workers."""
        return _merged(self._calls(work, tasks), merge, self.client)

    def _calls(self, work: Work, tasks: Sequence[bytes]) -> list[Any]:
        """Return the tasks as calls of the work, which is sent by itself if there are many.

        Dask deals out many tasks. A few would all go to the worker that already has the work, so
        the work is sent with each of them, unless it is large.
        """
        delayed = need("dask", "dask").delayed
        is_sent_once = len(tasks) > _MANY * _threads(self.client) or _is_large(work, self.client)
        sent: Any = delayed(work, pure=False) if is_sent_once else work
        return [delayed(_call)(sent, task) for task in tasks]


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


def over_pieces(rows: Rows, client: Any) -> Reduce:
    """Return a function that does a job on all pieces of a collection."""
    delayed = need("dask", "dask").delayed

    def reduce(job: Job) -> bytes:
        sent = delayed(job, pure=False)
        states = [delayed(_state)(sent, rows.read, *piece) for piece in rows.pieces]
        return _merged(states, job.merge, client)

    return reduce


def _threads(client: Any) -> int:
    """Return how many threads the workers have in total."""
    return 1 if client is None else sum(client.nthreads().values())


def _is_large(work: Work, client: Any) -> bool:
    """Tell whether work takes long to send; it is not sent to this process's own threads."""
    if client is None:
        return False
    return len(need("distributed.protocol.pickle", "dask").dumps(work)) > _LARGE


def _state(job: Job, read: Read, *piece: Any) -> bytes:
    return job.state(read(*piece))


def _call(work: Work, task: bytes) -> bytes:
    return work(task)


def _merged(states: list[Any], merge: Merge, client: Any) -> bytes:
    """Merge some states at a time, then the results, and so on."""
    delayed = need("dask", "dask").delayed
    sent = delayed(merge, pure=False)
    while len(states) > 1:
        groups = [states[first : first + _FAN] for first in range(0, len(states), _FAN)]
        states = [delayed(_merge)(sent, group) for group in groups]
    return bytes(next(_computed(states, client)))


def _merge(merge: Merge, states: list[bytes]) -> bytes:
    return merge(states)


def _computed(values: list[Any], client: Any) -> Iterator[Any]:
    """Yield the computed values, in order; without a client, Dask chooses how."""
    if client is None:
        yield from need("dask", "dask").compute(*values)
        return
    futures = client.compute(values)
    try:
        for future in futures:
            yield future.result()
    finally:
        client.cancel(futures)  # those that nobody waits for any more
