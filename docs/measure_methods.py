"""Write docs/measured.csv: how well every method told strangers from known inputs, measured here.

    python docs/measure_methods.py FOLDER... [--only NAME...]

A folder holds features as `typica bench` takes them: train.features.npy, train.labels.npy,
test.features.npy, ood.NAME.features.npy, head.weight.npy and head.bias.npy. Detectors have their
default parameters, but for those named in RECIPES; rectifiers stand before the detector of RECIPES.
With --only the lines of other methods stay. docs/make_methods.py makes the tables of it.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import make_pipeline

import typica
from typica import Head, detector_class, list_detectors, list_rectifiers, make_rectifier

TABLE = Path(__file__).with_name("measured.csv")
COLUMNS = ["suite", "method", "as", "set", "auroc", "fpr95"]

Features = dict[str, NDArray[np.floating]]


def energy_after(name: str) -> Callable[[Head], object]:
    """Return how to put a rectifier that keeps the width before Energy."""
    return lambda head: make_pipeline(make_rectifier(name), typica.Energy(head))


# What is not measured as it is by default: the words for it, and how it is made.
RECIPES: dict[str, tuple[str, Callable[[Head], object]]] = {
    "ensemble": (
        "Ensemble of CTM, KNN, Energy",
        lambda head: typica.Ensemble([typica.CTM(), typica.KNN(), typica.Energy(head)]),
    ),
    "layer_ensemble": (
        "with Mahalanobis on these features alone, which are of one layer",
        lambda head: typica.LayerEnsemble(),
    ),
    "prototypes": (
        "MCM with the means of the classes as prototypes",
        lambda head: typica.Prototypes(),
    ),
    "centre": ("before CTM", lambda head: make_pipeline(typica.Centre(), typica.CTM())),
    "whiten": (
        "within classes, before CTM",
        lambda head: make_pipeline(typica.Whiten(within_classes=True), typica.CTM()),
    ),
    "normalise": (
        "before PCAReconstruction",
        lambda head: make_pipeline(typica.L2Normalise(), typica.PCAReconstruction()),
    ),
    "pca": (
        "90 % of the variance, before CTM",
        lambda head: make_pipeline(typica.PCA(n_components=0.9), typica.CTM()),
    ),
    "optfs": (
        "before Energy",
        lambda head: make_pipeline(typica.OptFS(head), typica.Energy(head)),
    ),
    "random_fourier": (
        "before PCAReconstruction(share=0.8)",
        lambda head: make_pipeline(typica.RandomFourier(), typica.PCAReconstruction(share=0.8)),
    ),
    "dice": ("before Energy", lambda head: make_pipeline(typica.DICE(head), typica.Energy())),
}


def main() -> None:
    """Measure what was asked for and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--only", nargs="+", default=[])
    given = parser.parse_args()
    methods = given.only or [*list_detectors(), *list_rectifiers()]
    lines = [line for line in read_table() if line["method"] not in methods]
    for folder in given.folders:
        features = read_folder(folder)
        for name in methods:
            lines += measure(folder.name, name, features)
            print(folder.name, name, *[f"{line['set']} {line['auroc']}" for line in lines[-3:]])
    order = [*list_detectors(), *list_rectifiers()]
    lines.sort(key=lambda line: (line["suite"], order.index(line["method"]), line["set"]))
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


def read_table() -> list[dict[str, str]]:
    """Return the lines that are there."""
    if not TABLE.exists():
        return []
    with TABLE.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def read_folder(folder: Path) -> Features:
    """Return the arrays of a folder by name; float16 becomes float32."""
    arrays = {path.name.removesuffix(".npy"): np.load(path) for path in folder.glob("*.npy")}
    return {
        name: array.astype(np.float32) if array.dtype == np.float16 else array
        for name, array in arrays.items()
    }


def make(name: str, head: Head) -> tuple[str, object]:
    """Return how a method is measured, in words, and the estimator."""
    if name in RECIPES:
        words, made = RECIPES[name]
        return words, made(head)
    if name in list_rectifiers():
        return "before Energy", energy_after(name)(head)
    cls = detector_class(name)
    wants_head = cls.tags.needs_head or cls.tags.uses_head or cls.tags.reads == "logits"
    return "", cls(head=head) if wants_head else cls()


def measure(suite: str, name: str, features: Features) -> list[dict[str, str]]:
    """Return one line per OOD set, and their mean."""
    head = Head(features["head.weight"], features["head.bias"])
    words, estimator = make(name, head)
    estimator.fit(features["train.features"], features["train.labels"])
    known = estimator.score_samples(features["test.features"])
    results = {}
    for key in sorted(features):
        if key.startswith("ood."):
            result = typica.evaluate(known, estimator.score_samples(features[key]))
            results[key.split(".")[1]] = (100 * result.auroc, 100 * result.fpr)
    mean = np.mean(list(results.values()), axis=0)
    lines = []
    for key, (auroc, fpr) in {**results, "mean": mean}.items():
        figures = {"auroc": f"{auroc:.2f}", "fpr95": f"{fpr:.2f}"}
        lines.append({"suite": suite, "method": name, "as": words, "set": key, **figures})
    return lines


if __name__ == "__main__":
    main()
