"""Which engine to run a network with: each is tried on a sample, checked against the reference and timed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica.errors import InputError
from typica.nets._result import Extraction, each_array
from typica.nets._runner import Runner, Trial
from typica.nets.runtimes import mnn, openvino, ort
from typica.nets.runtimes._engine import Engine, cores

TOLERANCE = 1e-3  # of the largest value: single precision in another order stays far below
_CHECKED = 16  # images that are compared
# Images in a batch: on a CPU few stay in its cache, and each stream has its own; PyTorch needs more
# to be kept busy.
_SIZES = {"onnx": 2, "openvino": 2, "mnn": 2, "torch": 8, "compile": 8}
_ELSEWHERE = 64  # on any other device
_LARGER = (
    16,
    0.005,
)  # so many times as many are tried too where a batch takes fewer seconds: calls may cost more then
_LARGER_MNN = (4, 0.05)  # as Winograd's method likes larger products
_SPELL = 0.5  # seconds to time for, where that is more than a batch a thread
_WORTH = 10.0  # seconds: with less than that to do, to convert the network would take longer than it saves
_ROUNDS = 3  # in which what comes close to the best is timed again, in turn, as the machine's pace may change
_CLOSE = 0.7  # of the best rate


_OF_ONNX: dict[str, Callable[[Any, NDArray[Any], int], Engine]]
_OF_ONNX = {"onnx": ort.opened, "openvino": openvino.opened, "mnn": mnn.opened}
_OF_TORCH: dict[str, Callable[[Any, NDArray[Any], int], Engine]]
_OF_TORCH = {"onnx": ort.exported, "openvino": openvino.converted, "mnn": mnn.exported}


class Trials:
    """The ways to run an extractor.

    device: of a PyTorch extractor, None for an OnnxExtractor.
    """

    def __init__(self, extractor: Any, sample: NDArray[Any], device: Any, autocast: bool) -> None:
        self.extractor, self.sample, self.device, self.autocast = (
            extractor,
            sample,
            device,
            autocast,
        )
        try:
            self._reference = _float32(extractor(sample[:_CHECKED]))
        except InputError:
            raise
        except RuntimeError as error:
            reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
            raise InputError(
                f"make_runner: the network does not take images of {sample.shape[1:]} ({reason}); check the transform."
            ) from error
        self._trials: list[Trial] = []

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
        """Return the quickest runner of several backends, of which the first must work and the others may fail."""
        self._check(batch)
        found: list[tuple[Runner, Trial]] = []
        for backend in backends:
            if images is not None and any(
                images < _WORTH * (trial.rate or 0) for _, trial in found
            ):
                break
            if (
                backend != backends[0]
                and self.device is not None
                and (self.device.type != "cpu" or self.autocast)
            ):
                self._left(backend, batch, threads, "runs on the CPU in single precision")
                continue
            try:
                for runner, trial in self._timed(backend, batch, threads):
                    found.append((runner, trial))  # those before a failure stay
            except (
                Exception
            ) as error:  # converters raise anything; the first backend is the reference
                if backend == backends[0]:
                    raise
                reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
                self._left(backend, batch, threads, reason, getattr(error, "difference", None))
        return self._best(found)

    def _left(
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
        first, most = self._size(backend, batch), threads or cores()
        runner, trial = self._tried(backend, first, most)
        yield runner, trial
        if backend == "torch" and threads is None and most > 1 and self.device.type == "cpu":
            # On a busy machine, threads that wait for each other cost more than they save.
            yield self._tried(backend, first, 1)
        times, quick = _LARGER_MNN if backend == "mnn" else _LARGER
        larger = self._size(backend, times * first)
        if batch is None and larger > first and first < quick * (trial.rate or 0):
            yield self._tried(backend, larger, most)

    def _tried(self, backend: str, batch: int, threads: int) -> tuple[Runner, Trial]:
        runner, trial = self._checked(backend, batch, threads)
        return runner, trial._replace(rate=self._rate(runner, trial))

    def _best(self, found: list[tuple[Runner, Trial]]) -> Runner:
        """Return the quickest, by the best of several times of those that come close to it: others only slow them."""
        for _ in range(_ROUNDS):
            best = max(trial.rate or 0 for _, trial in found)
            close = [(trial.rate or 0) >= _CLOSE * best for _, trial in found]
            if sum(close) < 2:
                break
            found = [
                (runner, trial._replace(rate=max(trial.rate or 0, self._rate(runner, trial))))
                if again
                else (runner, trial)
                for again, (runner, trial) in zip(close, found, strict=True)
            ]
        runner, chosen = max(found, key=lambda pair: pair[1].rate or 0)
        slower = [
            trial._replace(reason="slower") if trial is not chosen else trial for _, trial in found
        ]
        runner.trials = [*slower, *self._trials]
        return runner

    def _checked(self, backend: str, batch: int, threads: int) -> tuple[Runner, Trial]:
        """Return a runner that agrees with the reference, with its rate from a cold start; raise if it fails."""
        where = f"make_runner: backend {backend!r}"
        more = {
            "device": "cpu" if self.device is None else str(self.device),
            "autocast": self.autocast,
        }
        checked = self.sample[:_CHECKED]
        try:
            engine = self._engine(backend, batch, threads)
            runner = Runner(backend, engine, self._reference, self.sample.shape[1:], more)
            start = perf_counter()
            [found] = runner([checked])
        except InputError:
            raise
        except Exception as error:  # converters raise anything
            reason = next(iter(str(error).strip().splitlines()), "")[:300]
            raise InputError(
                f"{where}: the model does not convert ({type(error).__name__}: {reason}); choose another backend."
            ) from error
        rate = len(checked) / (perf_counter() - start)
        difference = largest_difference(found, self._reference)
        if not difference <= TOLERANCE and not self.autocast:
            cause = f"differ by {difference:.1e} of the largest from the reference's, over {TOLERANCE:g}"
            advice = "choose another backend"
            if backend == "torch":
                cause += f", in batches of {batch} instead of {len(checked)}"
                advice = "run a model that mixes the images of a batch one by one, batch=1"
            raise _DiffersError(difference, f"{where}: features or logits {cause}; {advice}.")
        return runner, Trial(backend, batch, threads, rate, difference, "")

    def _engine(self, backend: str, batch: int, threads: int) -> Engine:
        example = np.resize(self.sample, (batch, *self.sample.shape[1:]))
        if self.device is None:
            return _OF_ONNX[backend](self.extractor, self.extractor.prepared(example), threads)
        if backend in _OF_TORCH:
            return _OF_TORCH[backend](self.extractor, example, threads)
        from typica.nets.runtimes.torch import CompiledEngine, TorchEngine  # noqa: PLC0415 (needs torch, an extra)

        if backend == "compile":
            return CompiledEngine(self.extractor, example, threads, self.device, self.autocast)
        return TorchEngine(self.extractor, batch, threads, self.device, self.autocast)

    @property
    def _sizes(self) -> tuple[int, int | None]:
        sizes: tuple[int, int | None] = getattr(self.extractor, "sizes", (1, None))
        return sizes

    def _check(self, batch: int | None) -> None:
        fewest, most = self._sizes
        if batch is not None and not fewest <= batch <= (most or batch):
            only = (
                f"{fewest} images at once"
                if fewest == most
                else f"{fewest} to {most or 'any number of'} images"
            )
            raise InputError(
                f"make_runner: batch={batch}, but the model takes {only}; leave batch out."
            )

    def _size(self, backend: str, wanted: int | None) -> int:
        """Return the batch size nearest to the one that is wanted of those that the model takes."""
        fewest, most = self._sizes
        if wanted is None:
            wanted = (
                _SIZES[backend] if self.device is None or self.device.type == "cpu" else _ELSEWHERE
            )
        return max(fewest, min(wanted, most or wanted))

    def _rate(self, runner: Runner, trial: Trial) -> float:
        """Return images a second, measured for as long as its last rate tells."""
        images = np.resize(self.sample, (runner.batch, *self.sample.shape[1:]))
        rounds = math.ceil(_SPELL * (trial.rate or 0) / runner.batch / runner.jobs)
        count = runner.jobs * min(max(rounds, 1), 25)
        start = perf_counter()
        for _ in runner(itertools.repeat(images, count)):
            pass
        return count * runner.batch / (perf_counter() - start)


class _DiffersError(InputError):
    """A backend's numbers are not the reference's."""

    def __init__(self, difference: float, message: str) -> None:
        super().__init__(message)
        self.difference = difference


def largest_difference(found: Extraction, reference: Extraction) -> float:
    """Return the largest difference between two extractions' arrays, as a part of the reference's largest value."""
    if (found.logits is None) != (
        reference.logits is None
    ) or found.layers.keys() != reference.layers.keys():
        return math.inf
    pairs = [(found.layers[name], reference.layers[name]) for name in reference.layers]
    if reference.logits is not None:
        pairs.append((found.logits, reference.logits))
    return max(_difference(a, b) for a, b in pairs)


def _difference(a: NDArray[Any], b: NDArray[Any]) -> float:
    if a.shape != b.shape:
        return math.inf
    usual = np.isfinite(b)
    if not np.array_equal(a[~usual], b[~usual], equal_nan=True) or not np.isfinite(a[usual]).all():
        return math.inf
    scale = np.abs(b[usual]).max(initial=0.0)
    gap = np.abs(a[usual] - b[usual]).max(initial=0.0)
    return float(gap / scale) if scale else float(gap > 0)


def _float32(extraction: Extraction) -> Extraction:
    def convert(rows: Any) -> NDArray[np.float32]:
        rows = rows.float().cpu().numpy() if hasattr(rows, "cpu") else rows
        return np.asarray(rows, dtype=np.float32)

    return each_array(extraction, convert)
