"""Write docs/measured_networks.csv: the methods that need the network itself, measured here.

    python docs/measure_networks.py FOLDER CHECKPOINT [--count 250]

The folder holds cifar10-train-2000.npz, cifar10-test-2000.npz, svhn-2000.npz and textures-1200.npz
(`images`, uint8, NHWC); the checkpoint is that of DenseNet-BC-100 on CIFAR-10. The first images of
each are used, those of the training set to fit on. docs/make_methods.py makes the table of it.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import typica
from typica.nets import ODIN, AdaSCALE, FeatureExtractor, Gram, LayerNAC, zoo

TABLE = Path(__file__).with_name("measured_networks.csv")
MODEL = "densenet-bc-100"
SETS = {"svhn": "svhn-2000", "textures": "textures-1200"}


def main() -> None:
    """Measure every method on the same images and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--count", type=int, default=250)
    given = parser.parse_args()
    torch.set_num_threads(1)
    transform = zoo.transform(MODEL)

    def images(name: str) -> Any:
        stored = np.load(given.folder / f"{name}.npz")["images"]
        return torch.from_numpy(transform(stored[: given.count]))

    known, train = images("cifar10-test-2000"), images("cifar10-train-2000")
    strange = {name: images(stored) for name, stored in SETS.items()}
    lines = []
    for name, scores in methods(zoo.load(MODEL, given.checkpoint), train, transform.std).items():
        own = scores(known)
        for key, batch in strange.items():
            result = typica.evaluate(own, scores(batch))
            figures = {"auroc": f"{100 * result.auroc:.2f}", "fpr95": f"{100 * result.fpr:.2f}"}
            lines.append({"method": name, "set": key, "images": given.count, **figures})
            print(*lines[-1].values(), flush=True)
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


def methods(model: Any, train: Any, std: Any) -> dict[str, Callable[[Any], Any]]:
    """Return by name what scores a batch of images."""
    plain = FeatureExtractor(model)
    plain(train[:2])
    energy = typica.Energy(plain.head)

    def pooled(reduce: Callable[[Any], Any]) -> Callable[[Any], Any]:
        # The network's own ReLU stands between the last normalisation and its pooling.
        extractor = FeatureExtractor(model, "bn1", reduce=lambda maps: reduce(maps.relu()))
        return lambda batch: energy.score_samples(in_parts(extractor, batch))

    return {
        "Energy": lambda batch: energy.score_samples(in_parts(plain, batch)),
        "Energy, DAVIS pooling max": pooled(lambda maps: maps.amax((2, 3))),
        "Energy, DAVIS pooling mean+std": pooled(
            lambda maps: maps.mean((2, 3)) + maps.std((2, 3), correction=0)
        ),
        "ODIN": lambda batch: ODIN(model, std=std).score_samples(batch),
        "AdaSCALE a": AdaSCALE(model).fit(train).score_samples,
        "AdaSCALE l": AdaSCALE(model, "l").fit(train).score_samples,
        "Gram of trans1, trans2, block3": Gram(model, ["trans1", "trans2", "block3"])
        .fit(train)
        .score_samples,
        "NAC of trans1, trans2, block3, bn1": LayerNAC(model, ["trans1", "trans2", "block3", "bn1"])
        .fit(train)
        .score_samples,
    }


def in_parts(extractor: FeatureExtractor, batch: Any) -> Any:
    """Return the features of all images."""
    return torch.cat([extractor(part).features for part in torch.split(batch, 50)])


if __name__ == "__main__":
    main()
