"""MNN: converted models, and an engine of processes that run them.

MNN convolves 3 x 3 by Winograd's method, which multiplies less: on networks made of such
convolutions it is up to twice as quick as the others. Its Python package holds Python's lock while
it computes, and prints what it likes, so batches run in processes of their own.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import math
import queue
import subprocess
import sys
import tempfile
import weakref
from io import BufferedReader, BufferedWriter
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray
from typica.errors import InputError
from typica.extras import check_installed
from typica.nets._extracted_batch import Extraction, in_float32
from typica.nets.runtimes import _mnn_process
from typica.nets.runtimes.engine import Wiring
from typica.nets.runtimes.ort import INPUT, write_onnx

_MOST = 8  # processes, as each holds the weights; with more threads each takes several
_PATIENCE = 5  # seconds that a process has to end


class MnnEngine:
    """A model in MNN, in single precision, one batch per process."""

    pads = True  # shapes that are known in advance are quicker

    def __init__(
        self, model: Path, name: str, wiring: Wiring, example: AnyArray, threads: int
    ) -> None:
        if example.dtype != np.float32:
            raise InputError(
                f"backend 'mnn' runs models that take float32, not {example.dtype}; "
                "choose another backend."
            )
        each = math.ceil(threads / _MOST)
        self.batch, self.threads, self.jobs = len(example), threads, threads // each
        self.versions = {"mnn": importlib.metadata.version("mnn")}
        self._wiring = wiring
        with tempfile.TemporaryDirectory(prefix="typica-") as folder:
            converted = Path(folder, "model.mnn")
            _convert(model, converted)
            task = {
                "model": str(converted),
                "input": name,
                "outputs": list(wiring.outputs),
                "shape": example.shape,
            }
            processes = [_Process({**task, "threads": each}) for _ in range(self.jobs)]
            for process in processes:  # all of them start at the same time
                process.wait_until_ready()
        self._idle: queue.SimpleQueue[_Process] = queue.SimpleQueue()
        for process in processes:
            self._idle.put(process)

    def infer(self, images: NDArray[np.float32]) -> Extraction:
        """Return what a batch gives."""
        images = self._wiring.prepare(images)
        process = self._idle.get()
        try:
            arrays = process.run(images)
        finally:
            self._idle.put(process)
        return in_float32(self._wiring.assemble(images, arrays))

    def close(self) -> None:
        """Do nothing: the processes wait, and end with this object."""


class _Process:
    """A process that runs batches of one shape; it ends with this object, or with its parent."""

    def __init__(self, task: dict[str, Any]) -> None:
        # A session of its own: Ctrl-C is for the parent, which finishes what is under way.
        self._process = subprocess.Popen(
            _command(task),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._in = cast("BufferedWriter", self._process.stdin)
        self._out = cast("BufferedReader", self._process.stdout)
        self._shapes: list[tuple[int, ...]] = []
        weakref.finalize(self, _end, self._process)

    def wait_until_ready(self) -> None:
        hello = self._out.readline()
        if not hello:
            raise RuntimeError(f"MNN does not run the model, and ended with {self._process.wait()}")
        self._shapes = [tuple(shape) for shape in json.loads(hello)]

    def run(self, images: AnyArray) -> list[NDArray[np.float32]]:
        with contextlib.suppress(BrokenPipeError):  # what is read then is too short
            self._in.write(images.data)
            self._in.flush()
        arrays = [np.empty(shape, dtype=np.float32) for shape in self._shapes]
        if any(self._out.readinto(array.data) < array.nbytes for array in arrays):
            raise InputError(
                f"Runner: a process of MNN ended with {self._process.wait()}; "
                "run again, or choose another backend."
            )
        return arrays


def _command(task: dict[str, Any]) -> list[str]:
    # -P: the modules beside the script are not to be found under their short names.
    return [sys.executable, "-P", _mnn_process.__file__, json.dumps(task)]


def _convert(model: Path, converted: Path) -> None:
    ended = subprocess.run(
        _command({"model": str(model), "converted": str(converted)}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if not converted.exists():
        lines = [line.strip() for line in ended.stderr.splitlines() if line.strip()]
        reason = lines[-1] if lines else f"it ended with {ended.returncode}"
        raise RuntimeError(f"MNN: {reason}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process by closing its input."""
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(OSError):
            pipe.close()  # type: ignore[union-attr]
    try:
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def exported(extractor: Any, example: NDArray[np.float32], threads: int) -> MnnEngine:
    """Return an engine of a PyTorch extractor, written to ONNX for batches like the example."""
    check_installed("MNN", "mnn")
    with tempfile.TemporaryDirectory(prefix="typica-") as folder:
        path = Path(folder, "model.onnx")
        return MnnEngine(path, INPUT, write_onnx(extractor, example, path), example, threads)


def opened(extractor: Any, example: AnyArray, threads: int) -> MnnEngine:
    """Return an engine over the ONNX model of an OnnxExtractor."""
    check_installed("MNN", "mnn")
    wiring = Wiring(extractor.outputs, extractor.prepared, extractor.extraction)
    with tempfile.TemporaryDirectory(prefix="typica-") as folder:
        path = extractor.program
        if isinstance(path, bytes):
            path = Path(folder, "model.onnx")
            path.write_bytes(extractor.program)
        return MnnEngine(path, extractor.input, wiring, example, threads)
