"""Which engine to run a network with: each is tried, checked against the reference and timed."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from typica.arrays import AnyArray, relative_difference
from typica.errors import InputError, argument, given, reason_of
from typica.machine import cores
from typica.nets._extracted_batch import Extraction, joined, run_directly
from typica.nets._runner import Runner, Trial
from typica.nets.runtimes import mnn, openvino, ort
from typica.nets.runtimes.engine import Engine

TOLERANCE = 1e-3  # of the largest value: single precision in another order stays far below
_CHECKED = 16  # images that are compared
# Images in a batch: on a CPU few stay in its cache, and each stream has its own; PyTorch needs more
# to be kept busy.
_SIZES = {"onnx": 2, "openvino": 2, "mnn": 2, "torch": 8, "compile": 8}
_ELSEWHERE = 64  # on any other device
# A batch that is larger by this factor is tried too where one takes fewer seconds than this: then
# the calls themselves may cost more.
_LARGER = (16, 0.005)
_LARGER_MNN = (4, 0.2)  # as Winograd's method likes larger products
_SPELL = 0.5  # seconds to time for, where that is more than one batch per thread
_WORTH = 10.0  # seconds of work; for less, converting the network takes longer than it saves
_GAIN = 2 / 3  # of the time: what another backend saves at the most, being three times as quick
_ROUNDS = 3  # of timing those close to the best again, as the machine's pace may change
_CLOSE = 0.7  # of the best rate

MakeEngine = Callable[[Any, AnyArray, int], Engine]
_OF_ONNX: dict[str, MakeEngine]
_OF_ONNX = {"onnx": ort.opened, "openvino": openvino.opened, "mnn": mnn.opened}
_OF_TORCH: dict[str, MakeEngine]
_OF_TORCH = {"onnx": ort.exported, "openvino": openvino.converted, "mnn": mnn.exported}


def is_elsewhere(device: Any, autocast: bool) -> bool:
    """Tell whether PyTorch does what no other backend does: another device, or half precision."""
    return device is not None and (device.type != "cpu" or autocast)


class Trials:
    """The ways to run an extractor.

    device: of a PyTorch extractor, None for an OnnxExtractor. one_by_one: whether the
    reference runs images one by one: a network that mixes the images of a batch gives other
    numbers for several at once.
    """

    def __init__(
        self, extractor: Any, sample: AnyArray, device: Any, autocast: bool, one_by_one: bool
    ) -> None:
        self.extractor, self.sample = extractor, sample
        self.device, self.autocast = device, autocast
        checked = sample[:_CHECKED]
        batches = np.split(checked, len(checked)) if one_by_one else [checked]
        found = [run_directly(extractor, batch) for batch in batches]
        self._reference = joined(found, np.concatenate)
        self._trials: list[Trial] = []
        self._dearest = 0.0  # seconds that the slowest trial so far took

    def named(self, backend: str, batch: int | None, threads: int | None) -> Runner:
        """Return the quickest runner of one backend; raise if it fails or differs."""
        self._check(batch)
        if batch is not None and threads is not None:
            runner, trial = self._checked(backend, batch, threads)
            runner.trials = [trial._replace(rate=None)]
            return runner
        return self._best(list(self._timed(backend, batch, threads)))

    def quickest(
        self,
        backends: Sequence[str],
        batch: int | None,
        threads: int | None,
        images: int | None = None,
    ) -> Runner:
        """Return the quickest runner of several backends; the first must work, others may fail.

        Where it is known how many images there are, the trial ends as soon as it cannot save time.
        """
        self._check(batch)
        first, *others = backends
        with self._at_its_cost():
            found = list(self._timed(first, batch, threads))
        tried = 1
        for backend in others:
            if not self._repays(images, found):
                break
            tried += 1
            if is_elsewhere(self.device, self.autocast):
                self._leave(backend, batch, threads, "runs on the CPU in single precision")
                continue
            with self._at_its_cost():
                self._try(backend, batch, threads, images, found)
        runner = self._best(found, images)
        runner.cut_short = tried < len(backends)
        return runner

    def _try(
        self,
        backend: str,
        batch: int | None,
        threads: int | None,
        images: int | None,
        found: list[tuple[Runner, Trial]],
    ) -> None:
        """Add the runners of a backend until one fails, or until another would not save time."""
        try:
            for pair in self._timed(backend, batch, threads):
                found.append(pair)
                if not self._repays(images, found):
                    break
        except Exception as error:  # converters raise anything
            difference = getattr(error, "difference", None)
            self._leave(backend, batch, threads, reason_of(error, 2000), difference)

    @contextlib.contextmanager
    def _at_its_cost(self) -> Iterator[None]:
        start = perf_counter()
        yield
        self._dearest = max(self._dearest, perf_counter() - start)

    def _repays(self, images: int | None, found: list[tuple[Runner, Trial]]) -> bool:
        """Tell whether another trial may save more time than it costs."""
        if images is None:
            return True
        left = images / max(trial.rate or 0 for _, trial in found)  # seconds
        return left >= _WORTH and _GAIN * left >= self._dearest

    def _leave(
        self,
        backend: str,
        batch: int | None,
        threads: int | None,
        reason: str,
        difference: float | None = None,
    ) -> None:
        size = self._size(backend, batch)
        self._trials.append(Trial(backend, size, threads or cores(), None, difference, reason))

    def _timed(
        self, backend: str, batch: int | None, threads: int | None
    ) -> Iterator[tuple[Runner, Trial]]:
        """Yield runners of a backend with their first time."""
        size, most = self._size(backend, batch), threads or cores()
        runner, trial = self._tried(backend, size, most)
        yield runner, trial
        may_use_one_thread = threads is None and most > 1
        if may_use_one_thread and self._is_torch_on_cpu(backend):
            # On a busy machine, threads that wait for each other cost more than they save.
            yield self._tried(backend, size, 1)
        if batch is not None:
            return
        larger = self._larger_size(trial)
        if larger > size:
            yield self._tried(backend, larger, most)

    def _is_torch_on_cpu(self, backend: str) -> bool:
        return backend == "torch" and bool(self.device.type == "cpu")

    def _larger_size(self, trial: Trial) -> int:
        """Return the batch size to try next; the same where a batch takes too long for more."""
        times, quick = _LARGER_MNN if trial.name == "mnn" else _LARGER
        is_quick = trial.batch < quick * (trial.rate or 0)
        if not is_quick:
            return trial.batch
        return self._size(trial.name, times * trial.batch)

    def _tried(self, backend: str, batch: int, threads: int) -> tuple[Runner, Trial]:
        runner, trial = self._checked(backend, batch, threads)
        return runner, trial._replace(rate=self._rate(runner, trial))

    def _best(self, found: list[tuple[Runner, Trial]], images: int | None = None) -> Runner:
        """Return the quickest, by the best of several times of those that come close to it."""
        for _ in range(_ROUNDS):
            rates = [trial.rate or 0 for _, trial in found]
            close = _worth_another_time(rates, images)
            for i in close:
                runner, trial = found[i]
                found[i] = runner, trial._replace(rate=max(rates[i], self._rate(runner, trial)))
            if not close:
                break
        best = max(range(len(found)), key=lambda i: found[i][1].rate or 0)
        trials = [trial._replace(reason="slower") for _, trial in found]
        runner, trials[best] = found[best]
        runner.trials = [*trials, *self._trials]
        return runner

    def _checked(self, backend: str, batch: int, threads: int) -> tuple[Runner, Trial]:
        """Return a runner that agrees with the reference, with its rate from a cold start."""
        device = "cpu" if self.device is None else str(self.device)
        more = {"device": device, "autocast": self.autocast}
        checked = self.sample[:_CHECKED]
        try:
            engine = self._engine(backend, batch, threads)
            runner = Runner(backend, engine, self._reference, self.sample.shape[1:], more)
            start = perf_counter()
            [found] = runner([checked])
        except InputError:
            raise
        except Exception as error:  # converters raise anything
            raise InputError(
                f"backend {backend!r}: the model does not convert "
                f"({type(error).__name__}: {reason_of(error)}); choose another backend."
            ) from error
        rate = len(checked) / (perf_counter() - start)
        difference = largest_difference(found, self._reference)
        if not difference <= TOLERANCE and not self.autocast:
            raise self._differs(difference, backend, batch)
        return runner, Trial(backend, batch, threads, rate, difference, "")

    def _differs(self, difference: float, backend: str, batch: int) -> InputError:
        cause = f"differ by {difference:.1e} of the largest from the reference's"
        limit, advice = f"over {TOLERANCE:g}", "choose another backend"
        if backend == "torch":
            limit += f", in batches of {batch} instead of {len(self.sample[:_CHECKED])}"
            advice = "run a model that mixes the images of a batch one by one, batch=1"
        message = f"backend {backend!r}: features or logits {cause}, {limit}; {advice}."
        return _DiffersError(difference, message)

    def _engine(self, backend: str, batch: int, threads: int) -> Engine:
        example = np.resize(self.sample, (batch, *self.sample.shape[1:]))
        if self.device is None:
            return _OF_ONNX[backend](self.extractor, self.extractor.prepared(example), threads)
        if backend in _OF_TORCH:
            return _OF_TORCH[backend](self.extractor, example, threads)
        # Needs torch, which is an extra.
        from typica.nets.runtimes.torch import CompiledEngine, TorchEngine  # noqa: PLC0415

        if backend == "compile":
            return CompiledEngine(self.extractor, example, threads, self.device, self.autocast)
        return TorchEngine(self.extractor, batch, threads, self.device, self.autocast)

    @property
    def _sizes(self) -> tuple[int, int | None]:
        sizes: tuple[int, int | None] = getattr(self.extractor, "sizes", (1, None))
        return sizes

    def _check(self, batch: int | None) -> None:
        fewest, most = self._sizes
        if batch is None or fewest <= batch <= (most or batch):
            return
        only = f"{fewest} to {most or 'any number of'} images"
        if fewest == most:
            only = f"{fewest} images at once"
        leave = f"leave out {argument('batch')}"
        raise InputError(f"{given('batch', batch)}, but the model takes {only}; {leave}.")

    def _size(self, backend: str, wanted: int | None) -> int:
        """Return the batch size nearest to the one that is wanted of those that the model takes."""
        fewest, most = self._sizes
        if wanted is None:
            on_cpu = self.device is None or self.device.type == "cpu"
            wanted = _SIZES[backend] if on_cpu else _ELSEWHERE
        return max(fewest, min(wanted, most or wanted))

    def _rate(self, runner: Runner, trial: Trial) -> float:
        """Return images per second, measured for as long as its last rate tells."""
        images = np.resize(self.sample, (runner.batch, *self.sample.shape[1:]))
        rounds = math.ceil(_SPELL * (trial.rate or 0) / runner.batch / runner.jobs)
        count = runner.jobs * min(max(rounds, 1), 25)
        start = perf_counter()
        for _ in runner(itertools.repeat(images, count)):
            pass
        return count * runner.batch / (perf_counter() - start)


def _worth_another_time(rates: list[float], images: int | None) -> list[int]:
    """Return which rates are so close to the best that timing them again may save time."""
    best = max(rates)
    close = [i for i, rate in enumerate(rates) if rate >= _CLOSE * best]
    saved = math.inf if images is None else (1 - _CLOSE) * images / best
    if len(close) < 2 or saved < _SPELL * len(close):
        return []
    return close


class _DiffersError(InputError):
    """A backend's numbers are not the reference's."""

    def __init__(self, difference: float, message: str) -> None:
        super().__init__(message)
        self.difference = difference


def largest_difference(found: Extraction, reference: Extraction) -> float:
    """Return the largest difference of two extractions, as a part of the largest value."""
    if found.layers.keys() != reference.layers.keys():
        return math.inf
    if (found.logits is None) != (reference.logits is None):
        return math.inf
    pairs = [(found.layers[name], reference.layers[name]) for name in reference.layers]
    if reference.logits is not None:
        pairs.append((found.logits, reference.logits))
    return max(relative_difference(a, b) for a, b in pairs)
