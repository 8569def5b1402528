"""A process of the engine in mnn.py, run as a script: converts a model, or runs batches.

Its first argument is what to do, in JSON. It needs NumPy and MNN alone.
"""

from __future__ import annotations

import json
import os
import sys
from io import BufferedReader, BufferedWriter
from typing import Any

import numpy as np


def main() -> None:
    """Convert a network for MNN or run one, as the process that started this one asks."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # MNN prints on the output, which is for answers
    task = json.loads(sys.argv[1])
    if "converted" in task:
        convert(task["model"], task["converted"])
    else:
        serve(task, os.fdopen(0, "rb"), answers)


def convert(model: str, converted: str) -> None:
    """Write an ONNX file as one of MNN."""
    # Not MNN.tools, which reports what it did to its makers.
    import _tools  # type: ignore[import-not-found]  # noqa: PLC0415

    _tools.mnnconvert(
        ["mnnconvert", "-f", "ONNX", "--modelFile", model, "--MNNModel", converted, "--bizCode", ""]
    )


def serve(task: dict[str, Any], batches: BufferedReader, answers: BufferedWriter) -> None:
    """Read batches until there are no more, and write the outputs of each, float32, in turn.

    First of all, write a line of JSON with the outputs' shapes, which one batch of zeros tells.
    """
    import MNN  # type: ignore[import-untyped]  # noqa: PLC0415

    options = {"backend": "CPU", "numThread": task["threads"], "precision": "high"}
    network = MNN.nn.load_module_from_file(
        task["model"],
        [task["input"]],
        task["outputs"],
        runtime_manager=MNN.nn.create_runtime_manager((options,)),
        shape_mutable=False,
    )
    images = np.zeros(task["shape"], dtype=np.float32)

    def run() -> list[Any]:
        given = MNN.expr.const(images, task["shape"], MNN.expr.NCHW)
        found = (MNN.expr.convert(output, MNN.expr.NCHW) for output in network.forward([given]))
        return [np.ascontiguousarray(output.read(), dtype=np.float32) for output in found]

    answers.write(json.dumps([output.shape for output in run()]).encode() + b"\n")
    answers.flush()
    while batches.readinto(images.data) == images.nbytes:
        for output in run():
            answers.write(output.data)
        answers.flush()


if __name__ == "__main__":
    main()
