"""ONNX Runtime: sessions, and an engine of them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray
from typica.errors import FormatError, reason_of
from typica.extras import need
from typica.nets._extracted_batch import Extraction, in_float32
from typica.nets.runtimes.engine import Wiring

INPUT = "images"
_FATAL_ONLY = 4  # what fails is raised as well


def session(model: bytes | Path, threads: int | None = None) -> Any:
    """Return a session over a model, on `threads` threads, or as many as ONNX Runtime likes."""
    runtime = need("onnxruntime", "onnx")
    options = runtime.SessionOptions()
    options.log_severity_level = _FATAL_ONLY
    if threads is not None:
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
    source = model if isinstance(model, bytes) else str(model)
    try:
        return runtime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its kinds of errors share no base
        raise FormatError(
            f"ONNX Runtime does not take the model ({reason_of(error)}); export it again."
        ) from error


class OrtEngine:
    """A model in ONNX Runtime: as many batches at once as threads, which is quicker than one."""

    def __init__(
        self, model: bytes | Path, wiring: Wiring, batch: int, threads: int, pads: bool
    ) -> None:
        self.batch, self.threads, self.jobs, self.pads = batch, threads, threads, pads
        self.versions = {"onnxruntime": str(need("onnxruntime", "onnx").__version__)}
        self._session = session(model, 1)
        self._input = self._session.get_inputs()[0].name
        self._wiring = wiring

    def infer(self, images: NDArray[np.float32]) -> Extraction:
        """Return what a batch gives."""
        images = self._wiring.prepare(images)
        arrays = self._session.run(self._wiring.outputs, {self._input: images})
        return in_float32(self._wiring.assemble(images, arrays))

    def close(self) -> None:
        """Do nothing: a session changes nothing."""


def exported(extractor: Any, example: NDArray[np.float32], threads: int) -> OrtEngine:
    """Return an engine of a PyTorch extractor, written to ONNX for batches like the example."""
    need("onnxruntime", "onnx")
    with tempfile.TemporaryDirectory(prefix="typica-") as folder:
        path = Path(folder, "model.onnx")
        wiring = write_onnx(extractor, example, path)
        return OrtEngine(path, wiring, len(example), threads, pads=True)


def write_onnx(extractor: Any, example: NDArray[np.float32], path: Path) -> Wiring:
    """Write what a PyTorch extractor does to an ONNX file, from INPUT to the wiring's outputs."""
    # Need torch, which is an extra.
    from typica.nets._torch import torch  # noqa: PLC0415
    from typica.nets.runtimes.torch import quiet, ready, wired  # noqa: PLC0415

    with quiet(), ready(extractor) as program:
        images = torch.from_numpy(example)
        names = [f"output.{i}" for i in range(len(program(images)))]
        torch.onnx.export(
            program,
            (images,),
            path,
            input_names=[INPUT],
            output_names=names,
            dynamo=False,
            verbose=False,
        )
    return wired(extractor, names)


def opened(extractor: Any, example: AnyArray, threads: int) -> OrtEngine:
    """Return an engine over the ONNX model of an OnnxExtractor."""
    wiring = Wiring(extractor.outputs, extractor.prepared, extractor.extraction)
    pads = extractor.sizes[1] is not None
    return OrtEngine(extractor.program, wiring, len(example), threads, pads)
