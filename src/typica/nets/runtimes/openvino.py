"""OpenVINO: converted models, and an engine of them."""

from __future__ import annotations

import queue
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica.extras import need
from typica.nets._result import Extraction, each_array
from typica.nets.runtimes._engine import Wiring, cores


class OpenVinoEngine:
    """A model in OpenVINO, in single precision, with one stream a thread: as many batches at once as threads."""

    pads = True  # shapes that are known in advance are quicker

    def __init__(self, model: Any, wiring: Wiring, example: NDArray[Any], threads: int) -> None:
        openvino = need("openvino", "openvino")
        self.batch, self.threads, self.jobs = len(example), threads, threads
        self.versions = {"openvino": str(openvino.__version__).partition("-")[0]}
        options = {
            "NUM_STREAMS": threads,
            "INFERENCE_NUM_THREADS": threads,
            "INFERENCE_PRECISION_HINT": "f32",
            # Pinned to the first cores, two processes with fewer threads than cores would share
            # them.
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
            # The request writes its next results where these lie.
            return each_array(
                self._wiring.assemble(images, arrays), lambda rows: np.array(rows, dtype=np.float32)
            )
        finally:
            self._requests.put(request)

    def close(self) -> None:
        """Do nothing: threads are the model's own."""


def converted(extractor: Any, example: NDArray[np.float32], threads: int) -> OpenVinoEngine:
    """Return an engine that runs what a PyTorch extractor does, traced for batches of the example's size."""
    openvino = need("openvino", "openvino")
    from typica.nets._torch import torch  # noqa: PLC0415
    from typica.nets.runtimes.torch import quiet, ready, wired  # noqa: PLC0415 (needs torch, which is an extra)

    with quiet(), ready(extractor) as program:
        traced = torch.jit.freeze(
            torch.jit.trace(program, (torch.from_numpy(example),), check_trace=False)
        )
        model = openvino.convert_model(traced, input=[(list(example.shape), openvino.Type.f32)])
    return OpenVinoEngine(model, wired(extractor, range(len(model.outputs))), example, threads)


def opened(extractor: Any, example: NDArray[Any], threads: int) -> OpenVinoEngine:
    """Return an engine over the ONNX model of an OnnxExtractor."""
    openvino = need("openvino", "openvino")
    program: bytes | Path = extractor.program
    model = openvino.Core().read_model(program if isinstance(program, bytes) else str(program))
    model.reshape(list(example.shape))
    places = {name: i for i, output in enumerate(model.outputs) for name in output.names}
    wiring = Wiring(
        [places[name] for name in extractor.outputs], extractor.prepared, extractor.extraction
    )
    return OpenVinoEngine(model, wiring, example, threads)
