"""PyTorch as an engine, and the operations of an extractor in a form that others take."""
# mypy: allow-subclassing-any

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica.nets._extracted_batch import Extraction, in_float32
from typica.nets._hooks import ONE_AT_A_TIME, evaluating
from typica.nets._torch import Tensor, nn, torch
from typica.nets.runtimes.engine import Wiring


class TorchEngine:
    """PyTorch as it is, on any device."""

    pads = False

    def __init__(
        self, extractor: Any, batch: int, threads: int, device: Any, autocast: bool
    ) -> None:
        self.extractor, self.batch, self.threads, self.device = extractor, batch, threads, device
        # On a GPU one batch is fetched while the next one runs.
        self.jobs = 2 if device.type == "cuda" else 1
        self.versions = {"torch": str(torch.__version__)}
        self._autocast = autocast
        self._before: int | None = None  # threads, where they were others when a batch came

    def infer(self, images: NDArray[np.float32]) -> Extraction:
        """Return what a batch gives."""
        now = torch.get_num_threads()
        if now != self.threads:
            self._before = now
            torch.set_num_threads(self.threads)
        with torch.inference_mode(), torch.autocast(self.device.type, enabled=self._autocast):
            return in_float32(self._run(self._moved(images)))

    def _moved(self, images: NDArray[np.float32]) -> Tensor:
        if self.device.type != "cuda":
            return images
        writeable = images if images.flags.writeable else images.copy()
        return torch.from_numpy(writeable).pin_memory().to(self.device, non_blocking=True)

    def _run(self, images: Tensor) -> Extraction:
        result: Extraction = self.extractor(images)
        return result

    def close(self) -> None:
        """Put the number of threads back, which threads that start later take over."""
        if self._before is not None:
            torch.set_num_threads(self._before)
            self._before = None


class CompiledEngine(TorchEngine):
    """The network's operations as torch.export lists them, compiled by torch.compile."""

    pads = True

    def __init__(
        self,
        extractor: Any,
        example: NDArray[np.float32],
        threads: int,
        device: Any,
        autocast: bool,
    ) -> None:
        super().__init__(extractor, len(example), threads, device, autocast)
        with quiet(), ready(extractor) as program:
            exported = torch.export.export(program, (extractor.prepared(example),), strict=False)
            self._function = torch.compile(exported.module())
        self._wiring = wired(extractor, [])
        try:
            with quiet():
                self.infer(example)  # which compiles
        finally:
            self.close()

    def _run(self, images: Tensor) -> Extraction:
        return self._wiring.assemble(images, self._function(self.extractor.prepared(images)))


class Operations(nn.Module):
    """What an extractor does, as a module: from images to each layer's rows and any logits."""

    def __init__(self, extractor: Any) -> None:
        super().__init__()
        self.extractor = extractor
        if isinstance(getattr(extractor, "model", None), nn.Module):
            self.model = extractor.model  # so that its parameters are seen as such

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        """Return the tuple."""
        found = self.extractor.run(images)
        return (*found.layers.values(), *([] if found.logits is None else [found.logits]))


def wired(extractor: Any, outputs: Sequence[Any]) -> Wiring:
    """Return how an engine runs the operations of an extractor that were converted from PyTorch."""
    layers = list(extractor.layers)

    def assemble(_: Any, arrays: Sequence[Any]) -> Extraction:
        rows = dict(zip(layers, arrays, strict=False))
        logits = arrays[len(layers)] if len(arrays) > len(layers) else None
        return Extraction(rows[layers[-1]], logits, rows)

    return Wiring(outputs, lambda images: images, assemble)


@contextlib.contextmanager
def ready(extractor: Any) -> Iterator[Operations]:
    """Give the operations of an extractor in a state in which they can be traced."""
    program = Operations(extractor)
    fast = torch.backends.mha.get_fastpath_enabled()
    with ONE_AT_A_TIME, evaluating(program, gradients=False):
        torch.backends.mha.set_fastpath_enabled(False)  # one operation that converters do not know
        try:
            yield program
        finally:
            torch.backends.mha.set_fastpath_enabled(fast)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep PyTorch's converters from warning and printing; what fails is raised all the same."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(None):
        warnings.simplefilter("ignore")
        yield
