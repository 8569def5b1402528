"""What an exported CTM adds to ResNet-50 in ONNX Runtime: its own graph, timed alone."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import torch
from timing import ratio

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
    added = session(to_onnx(detector))
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
        rows.append((what, 100 * share, 1.0, "at most"))
    return rows


if __name__ == "__main__":
    for what, reached, target, direction in run():
        print(f"{what}: {reached:.2f} ({direction} {target})")
