"""What an exported CTM adds to ResNet-50 in ONNX Runtime: its own graph, timed alone.

For one image that is mostly the time to read the class means from memory. AVX-512 makes
the network faster, and memory not, so one image has another bound there.
"""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import helper
from timing import has_avx512, ratio

from typica import CTM
from typica.export import to_onnx
from typica.nets import open_model


def session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def run() -> list[tuple[str, float, float, str]]:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    opened = open_model("resnet-50", "random")
    detector = CTM().fit(rng.random((2000, 2048), dtype=np.float32), np.arange(2000) % 1000)
    detector.calibrate(rng.random((10_000, 2048), dtype=np.float32))
    added, last_layer = session(to_onnx(detector)), session(linear(2048, 1000))
    guarded = onnx.utils.Extractor(to_onnx(detector, opened))
    bare = session(guarded.extract_model(["images"], ["logits"]))
    rows = []
    for batch in (1, 8):
        images = rng.random((batch, 3, 224, 224), dtype=np.float32)
        features = rng.random((batch, 2048), dtype=np.float32)
        share, _, _ = ratio(
            lambda features=features: added.run(None, {"features": features}),
            lambda images=images: bare.run(None, {"images": images}),
            repeats=15,
        )
        what = f"exported CTM on ResNet-50, batch {batch}, % of the bare network"
        limit = 2.0 if batch == 1 and has_avx512() else 1.0
        rows.append((what, 100 * share, limit, "at most"))
        times, _, _ = ratio(
            lambda features=features: added.run(None, {"features": features}),
            lambda features=features: last_layer.run(None, {"features": features}),
            repeats=101,
        )
        rows.append(
            (f"exported CTM, batch {batch} / a last layer of that size", times, 2.0, "at most")
        )
    return rows


def linear(width: int, n_classes: int) -> onnx.ModelProto:
    """Return a last layer: the one product that CTM cannot do without."""
    weight = np.random.default_rng(0).random((width, n_classes), dtype=np.float32)
    rows = helper.make_tensor_value_info("features", onnx.TensorProto.FLOAT, ["N", width])
    logits = helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, ["N", n_classes])
    product = helper.make_node("MatMul", ["features", "weight"], ["logits"])
    weights = [onnx.numpy_helper.from_array(weight, "weight")]
    graph = helper.make_graph([product], "linear", [rows], [logits], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


if __name__ == "__main__":
    for what, reached, target, direction in run():
        print(f"{what}: {reached:.2f} ({direction} {target})")
