"""DenseNet-BC for 32 x 32 images, depth 100, growth 12.

Huang, Liu, van der Maaten, Weinberger: Densely Connected Convolutional Networks, CVPR 2017. Three
dense blocks of 16 bottleneck layers (BN, ReLU, 1x1 convolution to 4k maps, BN, ReLU, 3x3
convolution to k maps, joined to the input), with transitions between them that halve maps and
sides. Feature: ReLU(BN) of the last block, averaged over space, 342 wide.
"""
# mypy: allow-subclassing-any

from __future__ import annotations

from typing import Any

from typica.nets._torch import functional, nn, torch
from typica.nets.zoo._layers import conv


class Bottleneck(nn.Module):
    """Adds `growth` maps to its input."""

    def __init__(self, inputs: int, growth: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = conv(inputs, 4 * growth, 1)
        self.bn2 = nn.BatchNorm2d(4 * growth)
        self.conv2 = conv(4 * growth, growth, 3)

    def forward(self, x: Any) -> Any:
        """Return x (n, c, h, w) with `growth` maps joined to it."""
        new = self.conv1(functional.relu_(self.bn1(x)))
        new = self.conv2(functional.relu_(self.bn2(new)))
        return torch.cat([x, new], dim=1)


class Block(nn.Module):
    """A dense block; its layers lie under the name `layer`, as in the checkpoints."""

    def __init__(self, inputs: int, growth: int, layers: int) -> None:
        super().__init__()
        self.layer = nn.Sequential(
            *(Bottleneck(inputs + i * growth, growth) for i in range(layers))
        )

    def forward(self, x: Any) -> Any:
        """Return x with the maps of all layers joined to it."""
        return self.layer(x)


class Transition(nn.Module):
    """Between blocks: fewer maps, half the side."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = conv(inputs, outputs, 1)

    def forward(self, x: Any) -> Any:
        """Return (n, outputs, h / 2, w / 2)."""
        return functional.avg_pool2d(self.conv1(functional.relu_(self.bn1(x))), 2)


class DenseNet(nn.Module):
    """DenseNet-BC; (n, 3, 32, 32) to logits (n, num_classes)."""

    def __init__(
        self, num_classes: int, depth: int = 100, growth: int = 12, reduction: float = 0.5
    ) -> None:
        super().__init__()
        layers = (depth - 4) // 6
        width = 2 * growth
        self.conv1 = conv(3, width, 3)
        self.block1 = Block(width, growth, layers)
        width += layers * growth
        self.trans1 = Transition(width, int(width * reduction))
        width = int(width * reduction)
        self.block2 = Block(width, growth, layers)
        width += layers * growth
        self.trans2 = Transition(width, int(width * reduction))
        width = int(width * reduction)
        self.block3 = Block(width, growth, layers)
        width += layers * growth
        self.bn1 = nn.BatchNorm2d(width)
        self.fc = nn.Linear(width, num_classes)

    def forward(self, x: Any) -> Any:
        """Return the logits."""
        x = self.trans1(self.block1(self.conv1(x)))
        x = self.block3(self.trans2(self.block2(x)))
        return self.fc(functional.relu_(self.bn1(x)).mean((2, 3)))


def build(num_classes: int) -> Any:
    """Return DenseNet-BC-100 (k = 12), as PyTorch draws its weights."""
    return DenseNet(num_classes)
