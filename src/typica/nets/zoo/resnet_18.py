"""ResNet-18 under torchvision's key names; see `resnet`."""

from __future__ import annotations

from typing import Any

from typica.nets.zoo.resnet import Basic, ResNet


def build(num_classes: int) -> Any:
    """Return ResNet-18, as PyTorch draws its weights."""
    return ResNet(Basic, (2, 2, 2, 2), num_classes)
