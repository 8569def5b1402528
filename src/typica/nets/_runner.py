"""Batches through an engine: several at once, in order, none left behind."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray
from typica.errors import InputError
from typica.nets._extracted_batch import Extraction, first_rows, joined
from typica.nets.runtimes.engine import Engine
from typica.threads import Task, Threads


class Trial(NamedTuple):
    """One way to run a network, as it was tried.

    Attributes
    ----------
    name, batch, threads
        The backend, its images at once and its threads.
    rate
        Images per second, None where it was not measured.
    difference
        The largest from the reference's features, layers and logits, as a part of the largest of
        these.
    reason
        Why it was not taken, "" if it could have been.
    """

    name: str
    batch: int
    threads: int
    rate: float | None
    difference: float | None
    reason: str


class Runner:
    """Runs batches of images, several at once, and gives their results in order.

    `make_runner` makes one.

    Attributes
    ----------
    name
        The backend.
    batch
        How many images it runs at once; longer batches are cut, so batches of this size are best.
    jobs
        How many batches it runs at once.
    settings
        JSON values that make an equal runner again, `make_runner(extractor, settings["backend"],
        batch=settings["batch"], threads=settings["threads"], ...)`, with equal results to the last
        bit on the same machine and versions.
    trials
        What was tried, measured and not taken.
    cut_short
        Whether some backends were not tried, as there are too few images for that to save time.
    chosen
        How this one was chosen, where that is worth saying.
    """

    def __init__(
        self,
        name: str,
        engine: Engine,
        example: Extraction,
        shape: tuple[int, ...],
        more: dict[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.batch, self.jobs = engine.batch, engine.jobs
        self.trials: list[Trial] = []
        self.cut_short = False
        self.chosen = ""
        versions = {"numpy": np.__version__, **engine.versions}
        self.settings = {
            "backend": name,
            "batch": engine.batch,
            "threads": engine.threads,
            **(more or {}),
        }
        self.settings["versions"] = versions
        self._engine = engine
        self._empty = first_rows(example, 0)
        self._shape = shape

    def __call__(self, batches: Iterable[NDArray[np.float32]]) -> Iterator[Extraction]:
        """Yield what each batch gives, as float32 arrays.

        Batches are taken from `batches` ahead of what is yielded, in the caller's thread, while
        others run; a generator that reads images thus works at the same time as the network. When
        the iteration ends, is left or fails, running batches are finished and none is left over.
        """
        waiting: deque[list[Task[Extraction]]] = deque()
        with closing(self._engine), Threads(self.jobs, "typica-runner") as pool:
            for images in batches:
                waiting.append([pool.submit(self._infer, piece) for piece in self._pieces(images)])
                # Behind the batch that is waited for, every thread has a piece to run and another.
                while waiting and (_done(waiting[0]) or _pieces_behind(waiting) >= 2 * self.jobs):
                    yield self._joined(waiting.popleft())
            while waiting:
                yield self._joined(waiting.popleft())

    @property
    def outputs(self) -> int | None:
        """How many logits the network gives; None where it gives none."""
        logits = self._empty.logits
        return None if logits is None else int(logits.shape[1])

    def _pieces(self, images: Any) -> Iterator[NDArray[np.float32]]:
        if not isinstance(images, np.ndarray) or images.shape[1:] != self._shape:
            found = images.shape if isinstance(images, np.ndarray) else type(images).__name__
            shape = ", ".join(map(str, self._shape))
            raise InputError(f"a batch of {found}; pass arrays (n, {shape}).")
        return (images[start : start + self.batch] for start in range(0, len(images), self.batch))

    def _infer(self, piece: AnyArray) -> Extraction:
        n = len(piece)
        piece = np.ascontiguousarray(piece, dtype=np.float32 if piece.dtype.kind == "f" else None)
        if n == self.batch or not self._engine.pads:
            return self._engine.infer(piece)
        padded = np.concatenate([piece, np.repeat(piece[-1:], self.batch - n, axis=0)])
        return first_rows(self._engine.infer(padded), n)

    def _joined(self, pieces: list[Task[Extraction]]) -> Extraction:
        return joined([piece.result() for piece in pieces] or [self._empty], np.concatenate)

    def describe(self) -> str:
        """Say in a line what runs the network, and what else was tried."""
        rates, failed = [], []
        for trial in self.trials:
            if trial.rate is not None:
                rates.append(f"{trial.name} {trial.batch}x{trial.threads} {trial.rate:.0f}")
            elif trial.reason:
                failed.append(f"{trial.name}: {trial.reason}")
        measured = f" (batch x threads, images/s: {', '.join(rates)})" if len(rates) > 1 else ""
        aside = f"; left aside: {'; '.join(failed)}" if failed else ""
        chosen = f"; {self.chosen}" if self.chosen else ""
        ran = f"{self.name}, batch {self.batch}, {self._engine.threads} threads"
        return f"{ran}{measured}{chosen}{aside}"

    def __repr__(self) -> str:
        return f"Runner({self.name!r}, batch={self.batch}, threads={self._engine.threads})"


def _done(pieces: list[Task[Extraction]]) -> bool:
    return all(piece.done() for piece in pieces)


def _pieces_behind(waiting: deque[list[Task[Extraction]]]) -> int:
    return sum(len(pieces) for pieces in itertools.islice(waiting, 1, None))
