"""ResNet-50 under torchvision's key names.

He, Zhang, Ren, Sun: Deep Residual Learning for Image Recognition, CVPR 2016. As in torchvision, the
stride of a block is on its 3x3 convolution, not on the first 1x1. Feature: the last block's output,
averaged over space, 2,048 wide.
"""
# mypy: allow-subclassing-any

from __future__ import annotations

from typing import Any

from typica.nets._torch import functional, nn
from typica.nets.zoo._layers import conv


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions to 4 * `width` maps, added to the input or its projection."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.conv1 = conv(inputs, width, 1)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = conv(width, width, 3, stride)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = conv(width, outputs, 1)
        self.bn3 = nn.BatchNorm2d(outputs)
        same = stride == 1 and inputs == outputs
        self.downsample = (
            None
            if same
            else nn.Sequential(conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))
        )

    def forward(self, x: Any) -> Any:
        """Return (n, 4 width, h / stride, w / stride)."""
        out = functional.relu_(self.bn1(self.conv1(x)))
        out = functional.relu_(self.bn2(self.conv2(out)))
        shortcut = x if self.downsample is None else self.downsample(x)
        return functional.relu_(self.bn3(self.conv3(out)) + shortcut)


def _stage(inputs: int, width: int, blocks: int, stride: int) -> Any:
    first = Bottleneck(inputs, width, stride)
    return nn.Sequential(first, *(Bottleneck(4 * width, width, 1) for _ in range(blocks - 1)))


class ResNet50(nn.Module):
    """ResNet-50; (n, 3, h, w) to logits (n, num_classes)."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.conv1 = conv(3, 64, 7, 2)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1 = _stage(64, 64, 3, 1)
        self.layer2 = _stage(256, 128, 4, 2)
        self.layer3 = _stage(512, 256, 6, 2)
        self.layer4 = _stage(1024, 512, 3, 2)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(2048, num_classes)

    def forward(self, x: Any) -> Any:
        """Return the logits."""
        x = self.maxpool(functional.relu_(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))


def build(num_classes: int) -> Any:
    """Return ResNet-50, as PyTorch draws its weights."""
    return ResNet50(num_classes)
