"""A network small enough for any test, and images that it can tell apart by their colour."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

MODEL = "tiny:network"
SOURCE = """
import torch
from torch import nn
from typica.data import Preprocessing


def network(seed="0"):
    torch.manual_seed(int(str(seed).rpartition("/")[2]))
    body = nn.Sequential(nn.Conv2d(3, 12, 3, stride=2), nn.ReLU(), \
nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return nn.Sequential(body, nn.Linear(12, 3)), Preprocessing(8, 8)
"""


def write_images(folder: Path, each: int = 20, seed: int = 0) -> Path:
    """Write images of three classes, each of a colour of its own, one folder a class."""
    rng = np.random.default_rng(seed)
    for k, name in enumerate(["blue", "green", "red"]):
        (folder / name).mkdir(parents=True)
        for i in range(each):
            pixels = rng.integers(0, 60, size=(8, 8, 3)) + 180 * np.eye(3, dtype=int)[2 - k]
            Image.fromarray(pixels.astype(np.uint8)).save(folder / name / f"{i:02d}.png")
    return folder


def write_noise(folder: Path, count: int = 30) -> Path:
    """Write images of nothing, in a flat folder."""
    folder.mkdir()
    for i in range(count):
        pixels = np.random.default_rng(i).integers(256, size=(8, 8, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{i:02d}.png")
    return folder
