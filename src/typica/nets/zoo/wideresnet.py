"""WideResNet-40-2 for 32 x 32 images, of the outlier-exposure family.

Zagoruyko, Komodakis: Wide Residual Networks, BMVC 2016. Three groups of 6 pre-activation blocks,
32, 64 and 128 maps wide. Feature: ReLU(BN) of the last group, averaged over space, 128 wide.
"""
# mypy: allow-subclassing-any

from __future__ import annotations

from typing import Any

from typica.nets._torch import functional, nn
from typica.nets.zoo._layers import conv


class PreActivation(nn.Module):
    """BN, ReLU, convolution, twice; added to the input or, where widths differ, its projection."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = conv(inputs, outputs, 3, stride)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.conv2 = conv(outputs, outputs, 3)
        self.convShortcut = None if inputs == outputs else conv(inputs, outputs, 1, stride)

    def forward(self, x: Any) -> Any:
        """Return (n, outputs, h / stride, w / stride)."""
        active = functional.relu_(self.bn1(x))
        shortcut = x if self.convShortcut is None else self.convShortcut(active)
        return shortcut + self.conv2(functional.relu_(self.bn2(self.conv1(active))))


class Group(nn.Module):
    """Blocks of one width; they lie under the name `layer`, as in the checkpoints."""

    def __init__(self, inputs: int, outputs: int, blocks: int, stride: int) -> None:
        super().__init__()
        first = PreActivation(inputs, outputs, stride)
        self.layer = nn.Sequential(
            first, *(PreActivation(outputs, outputs, 1) for _ in range(blocks - 1))
        )

    def forward(self, x: Any) -> Any:
        """Return the output of the last block."""
        return self.layer(x)


class WideResNet(nn.Module):
    """A wide residual network; (n, 3, 32, 32) to logits (n, num_classes)."""

    def __init__(self, num_classes: int, depth: int = 40, widen: int = 2) -> None:
        super().__init__()
        blocks = (depth - 4) // 6
        self.conv1 = conv(3, 16, 3)
        self.block1 = Group(16, 16 * widen, blocks, 1)
        self.block2 = Group(16 * widen, 32 * widen, blocks, 2)
        self.block3 = Group(32 * widen, 64 * widen, blocks, 2)
        self.bn1 = nn.BatchNorm2d(64 * widen)
        self.fc = nn.Linear(64 * widen, num_classes)

    def forward(self, x: Any) -> Any:
        """Return the logits."""
        x = self.block3(self.block2(self.block1(self.conv1(x))))
        return self.fc(functional.relu_(self.bn1(x)).mean((2, 3)))


def build(num_classes: int) -> Any:
    """Return WideResNet-40-2, as PyTorch draws its weights."""
    return WideResNet(num_classes)
