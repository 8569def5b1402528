"""Requests that wait together are judged together: batches grow with the load, and none is delayed.

MLServer can merge requests too, before the detector sees them, but then one bad row would fail all
that came with it. Here each is checked by itself, and then joins the others.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any


class BusyError(Exception):
    """The queue is full; seconds: after which to try again."""

    def __init__(self, waiting: int, seconds: int) -> None:
        super().__init__(f"{waiting} inputs are waiting already; try again in {seconds} s.")
        self.seconds = seconds


@dataclass(eq=False)
class Job:
    """Inputs that arrived together.

    key: what they must have in common with others of a batch. most: how many inputs such a batch
    may have. counted: whether they are part of the live stream.
    """

    key: Hashable
    inputs: Any
    size: int
    most: int
    counted: bool = True
    done: Future[Any] = field(default_factory=Future)


class Batcher:
    """One thread that works on what is waiting, as much at once as may be joined.

    work: takes jobs of one key and returns one result for each, in order. queue: inputs that may
    wait.
    """

    def __init__(self, name: str, work: Callable[[list[Job]], list[Any]], *, queue: int) -> None:
        self.queue = queue
        self.waiting = 0
        self._work = work
        self._jobs: deque[Job] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._rate = 0.0  # inputs per second, lately
        self._thread = threading.Thread(target=self._run, name=f"typica-{name}", daemon=True)
        self._thread.start()

    @contextlib.contextmanager
    def room(self, size: int) -> Iterator[None]:
        """Hold places in the queue until inputs are answered; raise BusyError if it is full."""
        with self._changed:
            # More than the whole queue is accepted when nothing waits, or it never would be.
            full = self.waiting > 0 and self.waiting + size > self.queue
            if full or self._closing:
                raise BusyError(self.waiting, self._seconds())
            self.waiting += size
        try:
            yield
        finally:
            with self._changed:
                self.waiting -= size

    def submit(self, job: Job) -> Future[Any]:
        """Let a job join the queue, in which it holds `room`."""
        with self._changed:
            if self._closing:
                raise BusyError(self.waiting, self._seconds())
            self._jobs.append(job)
            self._changed.notify()
        return job.done

    def close(self) -> None:
        """Take nothing more, work on what is waiting, and end."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _seconds(self) -> int:
        """Return in how many seconds the queue will be empty."""
        if not self._rate:
            return 1
        return max(1, min(60, round(self.waiting / self._rate)))

    def _run(self) -> None:
        while jobs := self._next():
            began = time.monotonic()
            live = [job for job in jobs if job.done.set_running_or_notify_cancel()]
            if live:
                self._settle(live)
            size = sum(job.size for job in jobs)
            self._rate = size / max(time.monotonic() - began, 1e-6)

    def _next(self) -> list[Job]:
        """Wait for a job, and return it with others of its key; none means the end."""
        with self._changed:
            while not self._jobs:
                if self._closing:
                    return []
                self._changed.wait()
            first = self._jobs.popleft()
            jobs, size, left = [first], first.size, deque[Job]()
            while self._jobs and size < first.most:
                job = self._jobs.popleft()
                if job.key == first.key and size + job.size <= first.most:
                    jobs.append(job)
                    size += job.size
                else:
                    left.append(job)
            self._jobs.extendleft(reversed(left))
            return jobs

    def _settle(self, jobs: list[Job]) -> None:
        """Work on jobs together; if that fails, on each alone, so that no job fails another."""
        try:
            results = self._work(jobs)
        except Exception as error:  # of any kind: the caller is told, and the thread continues
            if len(jobs) == 1:
                jobs[0].done.set_exception(error)
                return
            for job in jobs:
                self._settle([job])
            return
        for job, result in zip(jobs, results, strict=True):
            job.done.set_result(result)
