"""A suite's features: made on the spot, or read from a plain folder of arrays that someone has already.

    train.features.npy  train.labels.npy  test.features.npy  test.labels.npy     needed
    ood.NAME.features.npy                                                        one or more, any names
    head.weight.npy  head.bias.npy                                               for methods that read logits
    calibration.features.npy  calibration.labels.npy                             held-out ID inputs, if there are any
    train.layer.LAYER.npy  test.layer.LAYER.npy  ood.NAME.layer.LAYER.npy        for `--experiment layers`

float16 is read as float32; float32 stays on disk until it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica.arrays import as_floating
from typica.bench import digits
from typica.bench.config import Suite
from typica.bench.published import canonical
from typica.bench.suite import FeatureSuite
from typica.data import read_features, read_labels
from typica.errors import InputError
from typica.head import Head

NEEDED = ("train.features", "train.labels", "test.features", "test.labels")


def builtin_features(suite: Suite) -> FeatureSuite:
    """Return the features of a suite that needs no data: train its network, with the protocol's seed."""
    if suite.builtin != "digits":
        raise InputError(f"suite {suite.name!r}: not built in; pass its features or its data.")
    seed = suite.protocol.seed
    grey = {
        name: (255 - ink * (255 / digits.INK)).astype(np.uint8)
        for name, ink in digits.images(seed).items()
    }
    pictures = {
        name: [(f"{name}[{i}]", image) for i, image in enumerate(images)]
        for name, images in grey.items()
    }
    return replace(digits.load(seed), pictures=pictures)


def read_features_folder(suite: Suite, folder: str | Path) -> FeatureSuite:
    """Read the features of a suite from a folder (see the module), whatever its OOD sets are called.

    Sets that the suite names and the folder lacks are in `missing`; sets that the folder has beside
    them are taken too.
    """
    folder = Path(folder)
    files = _files(folder)
    ood = _ood_names(suite, files)
    width = _load(files["train.features"]).shape[1]
    classes, head = None, None
    if "head.weight" in files:
        bias = read_labels(files["head.bias"]) if "head.bias" in files else None
        head = Head(_load(files["head.weight"], width), bias)
        classes = head.classes
    held_out = "calibration.features" in files
    sets = FeatureSuite(
        name=suite.name,
        title=suite.title,
        train=_load(files["train.features"], width),
        train_labels=read_labels(files["train.labels"]),
        calibration=_load(files["calibration.features"], width) if held_out else None,
        calibration_labels=read_labels(files["calibration.labels"]) if held_out else None,
        test=_load(files["test.features"], width),
        test_labels=read_labels(files["test.labels"]),
        ood={name: _load(files[f"ood.{name}.features"], width) for name in ood},
        near=frozenset(name for name in ood if canonical(name) in map(canonical, suite.near)),
        head_weight=None if head is None else head.weight,
        head_bias=None if head is None else head.bias,
        classes=classes,
        accuracy=None,
        layers=_layers(suite, files, ood),
        missing=_missing(suite, ood, folder),
    )
    if head is None:
        return sets
    return replace(sets, accuracy=float(np.mean(head.predict(sets.test) == sets.test_labels)))


def _files(folder: Path) -> dict[str, Path]:
    """Return the arrays of the folder by their names without .npy; raise with all that are missing."""
    if not folder.is_dir():
        raise InputError(
            f"{folder}: there is no such folder; pass one that holds {NEEDED[0]}.npy and the others."
        )
    files = {path.name.removesuffix(".npy"): path for path in sorted(folder.glob("*.npy"))}
    wanted = [*NEEDED, *(["calibration.labels"] if "calibration.features" in files else [])]
    absent = [f"{name}.npy" for name in wanted if name not in files]
    if not any(name.startswith("ood.") and name.endswith(".features") for name in files):
        absent.append("ood.NAME.features.npy (at least one)")
    if absent:
        raise InputError(
            f"{folder}: lacks {', '.join(absent)}; write them there, one row an input."
        )
    return files


def _ood_names(suite: Suite, files: Mapping[str, Path]) -> list[str]:
    """Return the names of the OOD sets, in the suite's order where it knows them, then by the alphabet."""
    found = [name[4:-9] for name in files if name.startswith("ood.") and name.endswith(".features")]
    order = [canonical(name) for name in suite.ood]
    return sorted(
        found,
        key=lambda name: order.index(canonical(name)) if canonical(name) in order else len(order),
    )


def _missing(suite: Suite, ood: list[str], folder: Path) -> dict[str, str]:
    have = {canonical(name) for name in ood}
    return {
        name: f"absent: there is no ood.{name}.features.npy in {folder}; write its features there, or run with --data"
        for name in suite.ood
        if canonical(name) not in have
    }


def _layers(
    suite: Suite, files: Mapping[str, Path], ood: list[str]
) -> dict[str, dict[str, NDArray[Any]]]:
    """Return the features of other layers by layer and set, in the suite's order; raise if a set lacks a layer."""
    prefix = "train.layer."
    found = [name.removeprefix(prefix) for name in files if name.startswith(prefix)]
    found.sort(
        key=lambda layer: suite.layers.index(layer) if layer in suite.layers else len(suite.layers)
    )
    keys = {"train": "train", "test": "test"} | {name: f"ood.{name}" for name in ood}
    wanted = {
        layer: {name: f"{key}.layer.{layer}" for name, key in keys.items()} for layer in found
    }
    absent = [
        f"{file}.npy" for by_set in wanted.values() for file in by_set.values() if file not in files
    ]
    if absent:
        raise InputError(
            f"{files['train.features'].parent}: lacks {', '.join(absent)}; every set has every layer."
        )
    return {
        layer: {name: _load(files[file]) for name, file in by_set.items()}
        for layer, by_set in wanted.items()
    }


def _load(path: Path, width: int | None = None) -> NDArray[Any]:
    features = read_features(path).features
    if width is not None and features.shape[1] != width:
        raise InputError(
            f"{path}: {features.shape[1]} columns, but train.features.npy has {width}; take one layer."
        )
    return np.asarray(as_floating(features))
