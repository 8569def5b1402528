"""What a guard adds to a forward pass, timed alone: behind a model that costs nothing."""

from __future__ import annotations

import numpy as np
import torch
from timing import ratio
from torch import nn

from typica import CTM
from typica.nets import Guard, zoo


def run() -> list[tuple[str, float, float, str]]:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    model = zoo.load("resnet-50", weights=None)
    images = torch.randn(8, 3, 224, 224)
    detector = CTM().fit(rng.random((2000, 2048), dtype=np.float32), np.arange(2000) % 1000)
    features = torch.rand(8, 2048)
    added = Guard(nn.Linear(2048, 1), detector)
    with torch.no_grad():
        share, _, _ = ratio(lambda: added(features), lambda: model(images))
    return [
        ("Guard with CTM on ResNet-50, batch 8, % of the bare forward", 100 * share, 1.0, "at most")
    ]


if __name__ == "__main__":
    for what, reached, target, direction in run():
        print(f"{what}: {reached:.2f} ({direction} {target})")
