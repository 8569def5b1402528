"""Rows for engines, and workers that are killed at work; imported by the workers, too."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

M = 5
NAMES = np.array(["ant", "bee", "cat", "dog"])


def some_rows(seed: int, n: int, dtype: Any = np.float32) -> tuple[Any, Any]:
    """Return rows about four corners, and the corner of each; every corner has rows."""
    rng = np.random.default_rng(seed)
    codes = np.concatenate([np.arange(4), rng.integers(0, 4, n - 4)])
    return (rng.random((n, M)) + 3 * np.eye(4, M)[codes]).astype(dtype), codes


def as_lists(Z: Any) -> Any:
    """Return rows as a column of lists, however many of them and of whatever type."""
    offsets = np.arange(len(Z) + 1, dtype=np.int32) * Z.shape[1]
    return pa.ListArray.from_arrays(offsets, pa.array(Z.ravel()))


def as_table(Z: Any, labels: Any, first: int = 0) -> Any:
    """Return rows as a table with lists, labels, ids, and a column for each feature."""
    ids = pa.array(np.arange(first, first + len(Z)))
    flat = {f"f{i}": pa.array(np.ascontiguousarray(Z[:, i])) for i in range(Z.shape[1])}
    return pa.table({"id": ids, "features": as_lists(Z), "label": pa.array(labels), **flat})


def pieces(Z: Any, labels: Any, cuts: Sequence[int]) -> list[Any]:
    """Return a table for each stretch between cuts, some of which may be empty."""
    tables = []
    for chosen in np.split(np.arange(len(Z)), sorted(cuts)):
        first = int(chosen[0]) if len(chosen) else 0
        tables.append(as_table(Z[chosen], labels[chosen], first))
    return tables


def write_pieces(folder: Path, tables: Sequence[Any], group: int = 7) -> Path:
    """Write each table to a file of its own."""
    folder.mkdir(exist_ok=True)
    for number, table in enumerate(tables):
        pq.write_table(table, folder / f"{number:03d}.parquet", row_group_size=group)
    return folder


def die_once(flag: str) -> None:
    """Kill this process with -9, unless one was killed by the same flag before."""
    try:
        os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Dying:
    """Work that kills its worker once, when it has read some of a part, or written some of it."""

    work: Callable[[bytes], bytes]
    flag: str

    def __call__(self, task: bytes) -> bytes:
        from typica.scale import _judge, _learner

        for kind in (_judge.Judge, _learner.Learner):
            self._watch(kind)
        return self.work(task)

    def _watch(self, kind: type) -> None:
        """Let the first batch of the third file be the last thing that the process does."""
        name = "add" if hasattr(kind, "add") else "__call__"
        does = getattr(kind, name)

        def dying(this: Any, batch: Any) -> Any:
            done = does(this, batch)
            if batch.source.startswith("002"):
                die_once(self.flag)
            return done

        setattr(kind, name, dying)


@dataclass(frozen=True)
class DyingCluster:
    """A cluster one of whose workers is killed at its work."""

    cluster: Any
    flag: str

    def map(self, work: Callable[[bytes], bytes], tasks: Sequence[bytes]) -> Iterator[bytes]:
        return self.cluster.map(Dying(work, self.flag), tasks)

    def reduce(
        self,
        work: Callable[[bytes], bytes],
        merge: Callable[[Iterable[bytes]], bytes],
        tasks: Sequence[bytes],
    ) -> bytes:
        return self.cluster.reduce(Dying(work, self.flag), merge, tasks)


@dataclass(frozen=True)
class WaitingParts:
    """Stands for `OnParts`: tells by a file that a worker is at work, and never ends."""

    job: Any
    columns: Any

    def state(self, task: bytes) -> bytes:
        Path(os.environ["TYPICA_WAITS_AT"]).touch()
        time.sleep(3600)
        return b""

    def merge(self, states: Iterable[bytes]) -> bytes:
        return b"".join(states)


def shell() -> None:
    """Run a command whose workers never end, as `python -c` does in the tests."""
    from typica.cli import main
    from typica.scale import _on_cluster

    _on_cluster.OnParts = WaitingParts
    main(sys.argv[1:])
