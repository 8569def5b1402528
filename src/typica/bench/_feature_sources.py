"""A suite's features: built in, from its images, or read from a plain folder of arrays.

    train.features.npy  train.labels.npy                   needed
    test.features.npy  test.labels.npy                     needed
    ood.NAME.features.npy                                  one or more, any names
    head.weight.npy  head.bias.npy                         for methods that read logits
    calibration.features.npy  calibration.labels.npy       held-out ID inputs, if there are any;
                                                           or val.features.npy, val.labels.npy
    train.layer.LAYER.npy  test.layer.LAYER.npy            for `--experiment layers`
    ood.NAME.layer.LAYER.npy                               for `--experiment layers`

float16 is read as float32; float32 stays on disk until it is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from typica.arrays import AnyArray, as_floating
from typica.bench import digits
from typica.bench._feature_suite import FeatureSuite, with_accuracy
from typica.bench._suite import Suite, list_suites, load_suite
from typica.bench.published import canonical
from typica.data import read_features, read_labels
from typica.errors import InputError, argument, border
from typica.files import reading
from typica.head import Head

if TYPE_CHECKING:
    from typica.nets import Settings

NEEDED = ("train.features", "train.labels", "test.features", "test.labels")
HELD_OUT = ("calibration", "val")


@border
def check_sources(suite: str, features: Path | None, data: Path | None) -> None:
    """Raise where a suite that comes with Typica cannot be run on what was given."""
    if suite not in list_suites():
        return
    known = load_suite(suite)
    nothing = features is None and data is None
    if known.features is not None and features is None:
        raise InputError(
            f"{suite} has no network and needs features, {known.features}; pass "
            f"{argument('features', 'DIR')}."
        )
    if known.builtin and not nothing:
        raise InputError(
            f"{suite} brings its own data; leave out {argument('features')} and "
            f"{argument('data')}, or name another suite."
        )
    if nothing and not known.builtin:
        raise InputError(
            f"{suite} needs data; pass {argument('data', 'DIR')} with its weights and sets, or "
            f"{argument('features', 'DIR')}."
        )


@border
def suite_features(
    suite: Suite,
    *,
    features: Path | None = None,
    data: Path | None = None,
    cache: Path | None = None,
    settings: Settings | None = None,
    trust: bool = False,
    model: str | None = None,
) -> FeatureSuite:
    """Return a suite's features: read from a folder, built in, or from images.

    Parameters
    ----------
    suite
        The suite.
    features
        A folder of features, as `read_features_folder` takes it.
    data, cache, settings, trust, model
        For images: as `prepare` takes them.
    """
    if features is not None:
        return read_features_folder(suite, features)
    if suite.builtin:
        return builtin_features(suite)
    from typica.bench._suite_banks import prepare  # noqa: PLC0415 (needs torch, which is an extra)

    return prepare(suite, data, cache=cache, settings=settings, trust=trust, model=model)


@border
def builtin_features(suite: Suite) -> FeatureSuite:
    """Return the features and images of a suite that needs no data."""
    if suite.builtin != "digits":
        raise InputError(f"suite {suite.name!r}: not built in; pass its features or its data.")
    images = {}
    for name, ink in digits.images().items():
        grey = (255 - ink * (255 / digits.INK)).astype(np.uint8)
        images[name] = [(f"{name}[{row}]", image) for row, image in enumerate(grey)]
    return replace(digits.load(), images=images)


@border
def read_features_folder(suite: Suite, folder: str | Path) -> FeatureSuite:
    """Read a suite's features from a folder (see the module), whatever its OOD sets are called.

    OOD sets that the suite names and the folder lacks are in `missing`; those that only the folder
    has are used too.
    """
    folder = Path(folder)
    files = _files(folder)
    ood = _ood_names(suite, files)
    train = _load(files["train.features"])
    width = train.shape[1]
    head = _head(files, width)
    near = {canonical(name) for name in suite.near}
    sets = FeatureSuite(
        name=suite.name,
        title=suite.title,
        train=train,
        train_labels=read_labels(files["train.labels"]),
        calibration=None,
        calibration_labels=None,
        test=_load(files["test.features"], width),
        test_labels=read_labels(files["test.labels"]),
        ood={name: _load(files[f"ood.{name}.features"], width) for name in ood},
        near=frozenset(name for name in ood if canonical(name) in near),
        head_weight=None if head is None else head.weight,
        head_bias=None if head is None else head.bias,
        classes=None if head is None else head.classes,
        accuracy=None,
        layers=_layers(suite, files, ood),
        missing=_missing(suite, ood, folder),
    )
    split = _held_out(files)
    if split is not None:
        held_out = _load(files[f"{split}.features"], width)
        labels = read_labels(files[f"{split}.labels"])
        sets = replace(sets, calibration=held_out, calibration_labels=labels)
    return with_accuracy(sets)


def _head(files: Mapping[str, Path], width: int) -> Head | None:
    if "head.weight" not in files:
        return None
    bias = _bias(files["head.bias"]) if "head.bias" in files else None
    return Head(_load(files["head.weight"], width), bias)


def _bias(path: Path) -> AnyArray:
    with reading(path, "not a whole .npy file", "write it again"):
        return np.asarray(np.load(path, allow_pickle=False))


def _files(folder: Path) -> dict[str, Path]:
    """Return the arrays of the folder by their names without .npy; name all that are missing."""
    if not folder.is_dir():
        wanted = f"{NEEDED[0]}.npy and the others"
        raise InputError(f"{folder}: there is no such folder; pass one that holds {wanted}.")
    files = {path.name.removesuffix(".npy"): path for path in sorted(folder.glob("*.npy"))}
    needed = list(NEEDED)
    split = _held_out(files)
    if split is not None:
        needed.append(f"{split}.labels")
    absent = [f"{name}.npy" for name in needed if name not in files]
    if not any(map(_is_ood, files)):
        absent.append("ood.NAME.features.npy (at least one)")
    if absent:
        listed = ", ".join(absent)
        raise InputError(f"{folder}: lacks {listed}; write them there, one row per input.")
    return files


def _held_out(files: Mapping[str, Path]) -> str | None:
    """Return what the held-out inputs are called, where there are any."""
    return next((split for split in HELD_OUT if f"{split}.features" in files), None)


def _is_ood(name: str) -> bool:
    return name.startswith("ood.") and name.endswith(".features")


def _ood_names(suite: Suite, files: Mapping[str, Path]) -> list[str]:
    """Return the names of the OOD sets in the suite's order, then those that it does not know."""
    found = [name[4:-9] for name in files if _is_ood(name)]
    order = [canonical(name) for name in suite.ood]
    return sorted(found, key=lambda name: _place(canonical(name), order))


def _place(name: str, order: Sequence[str]) -> int:
    return order.index(name) if name in order else len(order)


def _missing(suite: Suite, ood: list[str], folder: Path) -> dict[str, str]:
    have = {canonical(name) for name in ood}
    missing = {}
    for name in suite.ood:
        if canonical(name) not in have:
            missing[name] = (
                f"there is no ood.{name}.features.npy in {folder}; "
                f"write its features there, or run with {argument('data', 'DIR')}"
            )
    return missing


def _layers(
    suite: Suite, files: Mapping[str, Path], ood: list[str]
) -> dict[str, dict[str, AnyArray]]:
    """Return the features of other layers by layer and set; raise if a set lacks a layer."""
    prefix = "train.layer."
    found = [name.removeprefix(prefix) for name in files if name.startswith(prefix)]
    found.sort(key=lambda layer: _place(layer, suite.layers))
    keys = {"train": "train", "test": "test"} | {name: f"ood.{name}" for name in ood}
    wanted = [f"{key}.layer.{layer}" for layer, key in product(found, keys.values())]
    absent = [f"{file}.npy" for file in wanted if file not in files]
    if absent:
        folder = files["train.features"].parent
        raise InputError(f"{folder}: lacks {', '.join(absent)}; every set has every layer.")
    layers = {}
    for layer in found:
        paths = {name: files[f"{key}.layer.{layer}"] for name, key in keys.items()}
        layers[layer] = {name: _load(path) for name, path in paths.items()}
    return layers


def _load(path: Path, width: int | None = None) -> AnyArray:
    features = read_features(path).features
    if width is not None and features.shape[1] != width:
        found = f"{features.shape[1]} columns, but train.features.npy has {width}"
        raise InputError(f"{path}: {found}; take one layer.")
    return np.asarray(as_floating(features))
