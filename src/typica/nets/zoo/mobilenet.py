"""MobileNetV2 under torchvision's key names.

Sandler, Howard, Zhu, Zhmoginov, Chen: MobileNetV2: Inverted Residuals and Linear Bottlenecks, CVPR
2018. Feature: the last 1x1 convolution's output, averaged over space, 1,280 wide.
"""
# mypy: allow-subclassing-any

from __future__ import annotations

from typing import Any

from typica.nets._torch import nn
from typica.nets.zoo._layers import conv

# Table 2 of the paper: expansion, outputs, repeats, stride of the first
_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def _activated(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> Any:
    normalised = nn.BatchNorm2d(outputs)
    return nn.Sequential(
        conv(inputs, outputs, kernel, stride, groups), normalised, nn.ReLU6(inplace=True)
    )


class InvertedResidual(nn.Module):
    """Widen by 1x1, filter by 3x3, project by 1x1; added to an input of the same shape."""

    def __init__(self, inputs: int, outputs: int, expansion: int, stride: int) -> None:
        super().__init__()
        width = inputs * expansion
        widened = [] if expansion == 1 else [_activated(inputs, width, 1)]
        filtered = _activated(width, width, 3, stride, groups=width)
        self.conv = nn.Sequential(
            *widened, filtered, conv(width, outputs, 1), nn.BatchNorm2d(outputs)
        )
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Any) -> Any:
        """Return (n, outputs, h / stride, w / stride)."""
        if self.residual:
            return x + self.conv(x)
        return self.conv(x)


class MobileNetV2(nn.Module):
    """MobileNetV2 of width 1; (n, 3, h, w) to logits (n, num_classes)."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        layers = [_activated(3, 32, 3, 2)]
        inputs = 32
        for expansion, outputs, repeats, first_stride in _STAGES:
            for i in range(repeats):
                layers.append(
                    InvertedResidual(inputs, outputs, expansion, first_stride if i == 0 else 1)
                )
                inputs = outputs
        self.features = nn.Sequential(*layers, _activated(inputs, 1280, 1))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, num_classes))

    def forward(self, x: Any) -> Any:
        """Return the logits."""
        return self.classifier(self.features(x).mean((2, 3)))


def build(num_classes: int) -> Any:
    """Return MobileNetV2, as PyTorch draws its weights."""
    return MobileNetV2(num_classes)
