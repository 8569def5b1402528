"""The files that snippets of README and docs name: a reader has such files, a test makes them."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
from PIL import Image
from safetensors.numpy import save_file
from sklearn.datasets import load_sample_images

from typica.bench import FeatureSuite


def write_photos() -> None:
    """Write photos/ with a folder per class, inbox/ and holiday.jpg to the current folder."""
    for name, photo in zip(("china", "flower"), load_sample_images().images, strict=True):
        for i, column in enumerate(range(0, 600, 90)):
            file = Path("photos", name, f"{i}.jpg")
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(photo[:, column : column + 40]).save(file)
    Path("photos", "noise").mkdir()
    for i in range(7):
        noise = np.random.default_rng(i).integers(256, size=(40, 40, 3), dtype=np.uint8)
        Image.fromarray(noise).save(f"photos/noise/{i}.png")
    shutil.copytree("photos/china", "inbox")
    shutil.copy("photos/flower/0.jpg", "holiday.jpg")


def write_features(suite: FeatureSuite) -> None:
    """Write the arrays that commands name to the current folder."""
    sets = {
        "train": suite.train,
        "labels": suite.train_labels,
        "held_out": suite.calibration,
        "test": suite.test,
        "new": suite.test,
        "svhn": suite.ood["photos"],
        "dtd": suite.ood["noise"],
    }
    for name, rows in sets.items():
        np.save(f"{name}.npy", rows)
    save_file({"weight": suite.head_weight, "bias": suite.head_bias}, "head.safetensors")
