"""What a verdict on one photograph costs in the shell, against a bare script that runs it once."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from timing import ratio

SHELL = Path(sys.executable).parent / "typica"
TARGET = 1.5
# ResNet-50 under torchvision's names, and nothing that the one image does not need.
BARE = """
import sys

import numpy
import torch
from PIL import Image
from torch import nn


class Block(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.downsample = None
        if stride != 1 or inputs != 4 * width:
            project = nn.Conv2d(inputs, 4 * width, 1, stride, bias=False)
            self.downsample = nn.Sequential(project, nn.BatchNorm2d(4 * width))

    def forward(self, x):
        y = self.bn1(self.conv1(x)).relu_()
        y = self.bn2(self.conv2(y)).relu_()
        y = self.bn3(self.conv3(y))
        return (y + (x if self.downsample is None else self.downsample(x))).relu_()


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        inputs = 64
        for i, (width, blocks) in enumerate([(64, 3), (128, 4), (256, 6), (512, 3)], start=1):
            stage = []
            for k in range(blocks):
                stage.append(Block(inputs, width, 2 if i > 1 and k == 0 else 1))
                inputs = 4 * width
            setattr(self, f"layer{i}", nn.Sequential(*stage))
        self.fc = nn.Linear(2048, 1000)

    def forward(self, x):
        x = self.maxpool(self.bn1(self.conv1(x)).relu_())
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


model = ResNet()
model.load_state_dict(torch.load(sys.argv[1], map_location="cpu", weights_only=True))
model.eval()
image = Image.open(sys.argv[2]).convert("RGB").resize((341, 256)).crop((58, 16, 282, 240))
pixels = torch.from_numpy(numpy.asarray(image).transpose(2, 0, 1).copy())[None].float() / 255
mean, std = (torch.tensor(v)[:, None, None] for v in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))
with torch.inference_mode():
    print(model((pixels - mean) / std).argmax().item())
"""


def write(folder: Path) -> None:
    """Write a checkpoint, a photograph and a detector that was fitted with that network."""
    import torch  # noqa: PLC0415 (what is measured runs in other processes)

    import typica  # noqa: PLC0415
    from typica.data import Preprocessing  # noqa: PLC0415
    from typica.nets import open_model, zoo  # noqa: PLC0415

    torch.manual_seed(0)
    torch.save(zoo.load("resnet-50", weights=None).state_dict(), folder / "net.pth")
    rng = np.random.default_rng(0)
    pixels = rng.integers(256, size=(480, 640, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(folder / "photo.jpg")
    opened = open_model("resnet-50", folder / "net.pth")
    features = rng.random((2000, 2048), dtype=np.float32)
    detector = typica.CTM().fit(features, np.arange(2000) % 1000).calibrate(2 * features)
    assert isinstance(opened.transform, Preprocessing)
    detector.origin_ = opened.origin(opened.transform)
    detector.save(folder / "ctm.safetensors")


def call(command: list[str], folder: str) -> None:
    # With bytecode, as all has that pip installed; an editable install has it only if allowed.
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(Path(folder, "bytecode"))}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, env=environment)


def run() -> list[tuple[str, float, float, str]]:
    with tempfile.TemporaryDirectory(prefix="typica-") as folder:
        write(Path(folder))
        score = [str(SHELL), "score", "ctm.safetensors", "photo.jpg"]
        bare = [sys.executable, "-c", BARE, "net.pth", "photo.jpg"]
        for command in (score, bare):  # which leaves its bytecode behind
            call(command, folder)
        reached, ours, theirs = ratio(lambda: call(score, folder), lambda: call(bare, folder))
    what = f"typica score of one photograph ({ours:.2f} s) / bare script ({theirs:.2f} s)"
    return [(what, reached, TARGET, "at most")]


if __name__ == "__main__":
    for what, reached, target, direction in run():
        print(f"{what}: {reached:.2f} ({direction} {target})")
