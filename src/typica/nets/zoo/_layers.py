"""What several architectures share."""

from __future__ import annotations

from typing import Any

from typica.nets._torch import nn


def conv(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> Any:
    """Return a convolution without bias that keeps the size of the map but for its stride."""
    return nn.Conv2d(
        inputs, outputs, kernel, stride=stride, padding=kernel // 2, groups=groups, bias=False
    )


def initialised(model: Any) -> Any:
    """Return the model with its convolutions drawn as He et al. 2015 do."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return model
