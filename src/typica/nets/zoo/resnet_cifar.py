"""ResNet-18 for 32 x 32 images: a 3x3 stem of stride 1 and no pooling before the blocks.

He, Zhang, Ren, Sun: Deep Residual Learning for Image Recognition, CVPR 2016. Feature: the last
block's output, averaged over space, 512 wide.
"""
# mypy: allow-subclassing-any

from __future__ import annotations

from typing import Any

from typica.nets._torch import functional, nn
from typica.nets.zoo._layers import conv


class Basic(nn.Module):
    """Two 3x3 convolutions, added to the input or to its projection."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = conv(inputs, outputs, 3, stride)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = conv(outputs, outputs, 3)
        self.bn2 = nn.BatchNorm2d(outputs)
        same = stride == 1 and inputs == outputs
        projection = [] if same else [conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs)]
        self.shortcut = nn.Sequential(*projection)

    def forward(self, x: Any) -> Any:
        """Return (n, outputs, h / stride, w / stride)."""
        out = functional.relu_(self.bn1(self.conv1(x)))
        return functional.relu_(self.bn2(self.conv2(out)) + self.shortcut(x))


class ResNetCifar(nn.Module):
    """ResNet-18; (n, 3, 32, 32) to logits (n, num_classes)."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.conv1 = conv(3, 64, 3)
        self.bn1 = nn.BatchNorm2d(64)
        self.layer1 = nn.Sequential(Basic(64, 64, 1), Basic(64, 64, 1))
        self.layer2 = nn.Sequential(Basic(64, 128, 2), Basic(128, 128, 1))
        self.layer3 = nn.Sequential(Basic(128, 256, 2), Basic(256, 256, 1))
        self.layer4 = nn.Sequential(Basic(256, 512, 2), Basic(512, 512, 1))
        self.linear = nn.Linear(512, num_classes)

    def forward(self, x: Any) -> Any:
        """Return the logits."""
        x = functional.relu_(self.bn1(self.conv1(x)))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.linear(x.mean((2, 3)))


def build(num_classes: int) -> Any:
    """Return ResNet-18 for CIFAR, as PyTorch draws its weights."""
    return ResNetCifar(num_classes)
