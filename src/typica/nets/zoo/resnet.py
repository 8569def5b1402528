"""ResNet-18 and ResNet-50 under torchvision's key names.

He, Zhang, Ren, Sun: Deep Residual Learning for Image Recognition, CVPR 2016. As in torchvision, the
stride of a block is on its first 3x3 convolution. Feature: the last block's output, averaged over
space, 512 wide of ResNet-18 and 2,048 of ResNet-50.
"""
# mypy: allow-subclassing-any

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typica.nets._torch import functional, nn
from typica.nets.zoo._layers import conv


class Basic(nn.Module):
    """Two 3x3 convolutions to `width` maps, added to the input or its projection."""

    widening = 1

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = conv(inputs, width, 3, stride)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = conv(width, width, 3)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = _projection(inputs, width, stride)

    def forward(self, x: Any) -> Any:
        """Return (n, width, h / stride, w / stride)."""
        out = functional.relu_(self.bn1(self.conv1(x)))
        shortcut = x if self.downsample is None else self.downsample(x)
        return functional.relu_(self.bn2(self.conv2(out)) + shortcut)


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions to 4 * `width` maps, added to the input or its projection."""

    widening = 4

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.conv1 = conv(inputs, width, 1)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = conv(width, width, 3, stride)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = conv(width, outputs, 1)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.downsample = _projection(inputs, outputs, stride)

    def forward(self, x: Any) -> Any:
        """Return (n, 4 width, h / stride, w / stride)."""
        out = functional.relu_(self.bn1(self.conv1(x)))
        out = functional.relu_(self.bn2(self.conv2(out)))
        shortcut = x if self.downsample is None else self.downsample(x)
        return functional.relu_(self.bn3(self.conv3(out)) + shortcut)


def _projection(inputs: int, outputs: int, stride: int) -> Any:
    """Return what brings the input to the shape of the output, None where it has it."""
    if stride == 1 and inputs == outputs:
        return None
    return nn.Sequential(conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))


def _stage(block: Any, inputs: int, width: int, blocks: int, stride: int) -> Any:
    first = block(inputs, width, stride)
    rest = (block(block.widening * width, width, 1) for _ in range(blocks - 1))
    return nn.Sequential(first, *rest)


class ResNet(nn.Module):
    """A ResNet of these blocks, so many in each stage; (n, 3, h, w) to logits (n, num_classes)."""

    def __init__(self, block: Any, blocks: Sequence[int], num_classes: int) -> None:
        super().__init__()
        wider = block.widening
        self.conv1 = conv(3, 64, 7, 2)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1 = _stage(block, 64, 64, blocks[0], 1)
        self.layer2 = _stage(block, 64 * wider, 128, blocks[1], 2)
        self.layer3 = _stage(block, 128 * wider, 256, blocks[2], 2)
        self.layer4 = _stage(block, 256 * wider, 512, blocks[3], 2)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(512 * wider, num_classes)

    def forward(self, x: Any) -> Any:
        """Return the logits."""
        x = self.maxpool(functional.relu_(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))


def build(num_classes: int) -> Any:
    """Return ResNet-50, as PyTorch draws its weights."""
    return ResNet(Bottleneck, (3, 4, 6, 3), num_classes)
