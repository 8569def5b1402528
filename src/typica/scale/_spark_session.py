"""Open a Spark session at an address, or a local one, that Ctrl-C can interrupt."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from typica.extras import need
from typica.machine import unheard_interrupts
from typica.scale._engines import Merge, Work, no_answer
from typica.scale._spark_cluster import SparkCluster, cluster_of

T = TypeVar("T")


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
    """Waits for Spark in a thread, because Ctrl-C cannot interrupt a wait for Java's answer."""

    def __init__(self, cluster: SparkCluster) -> None:
        self.cluster = cluster
        self.session = cluster.session

    def map(self, work: Work, tasks: Sequence[bytes]) -> Iterator[bytes]:
        """Yield the result of each task, in order."""
        yield from self._done(lambda: list(self.cluster.map(work, tasks)))

    def reduce(self, work: Work, merge: Merge, tasks: Sequence[bytes]) -> bytes:
        """Return the results of all tasks, merged in a tree by the workers."""
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
    """Discard the warnings of the Java process that is started in the block."""
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
        # Its workers run on this machine, with this very Python.
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        }
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.master(master)
