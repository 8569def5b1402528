"""OpenVINO: converted models, and an engine of them."""

from __future__ import annotations

import queue
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray
from typica.extras import need
from typica.machine import cores
from typica.nets._extracted_batch import Extraction, each_array
from typica.nets.runtimes.engine import Wiring


class OpenVinoEngine:
    """A model in OpenVINO, in single precision: one stream, and so one batch, per thread."""

    pads = True  # shapes that are known in advance are quicker

    def __init__(self, model: Any, wiring: Wiring, example: AnyArray, threads: int) -> None:
        openvino = need("openvino", "openvino")
        self.batch, self.threads, self.jobs = len(example), threads, threads
        self.versions = {"openvino": str(openvino.__version__).partition("-")[0]}
        options = {
            "NUM_STREAMS": threads,
            "INFERENCE_NUM_THREADS": threads,
            "INFERENCE_PRECISION_HINT": "f32",
            # Pinned, two processes with fewer threads than cores would share the first ones.
            "ENABLE_CPU_PINNING": threads >= cores(),
        }
        self.compiled = openvino.Core().compile_model(model, "CPU", options)
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for _ in range(self.jobs):
            self._requests.put(self.compiled.create_infer_request())
        self._wiring = wiring
        # OpenVINO makes some of its types at their first use. Two threads that meet there can wait
        # for each other for ever: one for Python's lock, the other for what the first one is
        # making.
        self.infer(example)

    def infer(self, images: NDArray[np.float32]) -> Extraction:
        """Return what a batch gives."""
        images = self._wiring.prepare(images)
        request = self._requests.get()
        try:
            request.infer([images], share_inputs=True, share_outputs=True)
            arrays = [request.get_output_tensor(i).data for i in self._wiring.outputs]
            found = self._wiring.assemble(images, arrays)
            # Copies, as the request writes its next results where these lie.
            return each_array(found, lambda rows: np.array(rows, dtype=np.float32))
        finally:
            self._requests.put(request)

    def close(self) -> None:
        """Do nothing: threads are the model's own."""


def converted(extractor: Any, example: NDArray[np.float32], threads: int) -> OpenVinoEngine:
    """Return an engine of a PyTorch extractor, traced for batches like the example."""
    openvino = need("openvino", "openvino")
    # Need torch, which is an extra.
    from typica.nets._torch import torch  # noqa: PLC0415
    from typica.nets.runtimes.torch import quiet, ready, wired  # noqa: PLC0415

    with quiet(), ready(extractor) as program:
        traced = torch.jit.trace(program, (torch.from_numpy(example),), check_trace=False)
        given = [(list(example.shape), openvino.Type.f32)]
        model = openvino.convert_model(torch.jit.freeze(traced), input=given)
    return OpenVinoEngine(model, wired(extractor, range(len(model.outputs))), example, threads)


def opened(extractor: Any, example: AnyArray, threads: int) -> OpenVinoEngine:
    """Return an engine over the ONNX model of an OnnxExtractor."""
    openvino = need("openvino", "openvino")
    program: bytes | Path = extractor.program
    model = openvino.Core().read_model(program if isinstance(program, bytes) else str(program))
    model.reshape(list(example.shape))
    places: dict[str, int] = {}
    for i, output in enumerate(model.outputs):
        places |= dict.fromkeys(output.names, i)
    outputs = [places[name] for name in extractor.outputs]
    wiring = Wiring(outputs, extractor.prepared, extractor.extraction)
    return OpenVinoEngine(model, wiring, example, threads)
