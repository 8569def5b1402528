"""From a suite and a folder of data to features: networks run once, into banks for later runs.

A bank's folder is named after what it holds and a fingerprint of all that made it. So a suite whose
model, transform or data change gets new banks, and one that was interrupted resumes where it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from typica.arrays import AnyArray, as_floating
from typica.bank import Bank, bank_settings
from typica.bench._feature_suite import FeatureSuite, with_accuracy
from typica.bench._image_banks import bank_suffix, forget_if_changed
from typica.bench._image_methods import Moved, TrainImages
from typica.bench._suite import Source, Suite
from typica.data import (
    FeatureFile,
    Images,
    Preprocessing,
    holds_images,
    in_order,
    open_features,
    open_images,
    read_listing,
)
from typica.data.sets import find_set, how_to_get
from typica.errors import InputError, about, argument, border
from typica.files import home
from typica.head import Head
from typica.nets import (
    Opened,
    Settings,
    extract,
    is_function,
    one_backend,
    open_model,
    transform_for,
)
from typica.progress import note, work

Arrays = dict[str, AnyArray]
UNIT = "images/s"


@border
def prepare(
    suite: Suite,
    data: Path | None,
    *,
    cache: Path | None = None,
    settings: Settings | None = None,
    trust: bool = False,
    model: str | None = None,
) -> FeatureSuite:
    """Return a suite's features, from its images or from banks; absent OOD sets are in `missing`.

    Parameters
    ----------
    suite
        A suite with a model.
    data
        The folder of images and weights.
    cache
        Where banks are kept; `banks` in Typica's home if None.
    settings
        What runs the network, and how.
    trust
        Whether a model in a PyTorch file, which can run code, may be loaded.
    model
        The function that the suite names as its model, so that its code may run.
    """
    if suite.builtin:
        raise InputError(f"suite {suite.name!r} brings its own data; call suite_features(suite).")
    found, missing = _find_all(suite, data)
    opened = _open(suite, data, trust, model)
    transform = _transform(suite, opened, found)
    banks = cache or home() / "banks"
    job = _SuiteJob(opened, transform, settings or Settings(), banks, suite)
    job = job.by_one_backend(found)
    sets = {name: job.features(name, place) for name, place in found.items()}
    rows, labels = _tables(suite, sets)
    ood = [name for name in suite.ood if name in sets]
    looked_at = {name: sets[name] for name in ("train", "test", *ood)}
    features = FeatureSuite(
        name=suite.name,
        title=suite.title,
        train=rows["train"],
        train_labels=labels["train"],
        calibration=rows.get("calibration"),
        calibration_labels=labels.get("calibration"),
        test=rows["test"],
        test_labels=labels["test"],
        ood={name: rows[name] for name in ood},
        near=frozenset(suite.near) & set(ood),
        head_weight=None,
        head_bias=None,
        classes=None,
        accuracy=None,
        layers=_layers(suite, sets),
        scores=job.input_scores(suite, looked_at),
        missing=missing,
        left_out=_left_out(sets),
        images={name: entry for name, entry in sets.items() if entry.images is not None},
    )
    return _with_head(features, sets["train"].file.head)


def _tables(suite: Suite, sets: Mapping[str, _Set]) -> tuple[Arrays, Arrays]:
    """Return features and labels by set; the sets that the network knows must have labels."""
    rows, labels = {}, {}
    for name, entry in sets.items():
        table = entry.file.read()
        rows[name] = np.asarray(as_floating(table.features))
        if name in suite.ood:
            continue
        if table.labels is None:
            raise InputError(
                f"suite {suite.name!r}: {name} has no labels; "
                "keep its images in one folder per class."
            )
        labels[name] = table.labels
    return rows, labels


def _left_out(sets: Mapping[str, _Set]) -> dict[str, list[str]]:
    """Return what could not be read, by set."""
    return {name: list(entry.left_out) for name, entry in sets.items() if entry.left_out}


def _with_head(features: FeatureSuite, head: Head | None) -> FeatureSuite:
    """Add the head that lies beside the training features, and the accuracy it reaches."""
    if head is None:
        return features
    headed = replace(features, head_weight=head.weight, head_bias=head.bias, classes=head.classes)
    return with_accuracy(headed)


@dataclass(frozen=True)
class _Place:
    """Where a suite's set is: a path, and the split or list that says which part is meant."""

    path: Path
    split: str | None = None
    listing: Path | None = None

    @property
    def holds_images(self) -> bool:
        """Whether the path holds images, and not features."""
        return holds_images(self.path)

    def images(self) -> Images:
        """Open the images."""
        return open_images(self.path, split=self.split, listing=self.listing)


@dataclass(frozen=True, eq=False)
class _Set:
    """One set: the file or bank of its features, and its images where there are any, by row."""

    file: FeatureFile
    images: Images | None = None
    left_out: tuple[str, ...] = ()

    @cached_property
    def _position(self) -> dict[str, int]:
        names = () if self.images is None else self.images.names
        return {name: place for place, name in enumerate(names)}

    def __getitem__(self, row: int) -> tuple[str, Any]:
        """Return the name and the image of a row; the features may lack images that are damaged."""
        if self.images is None:
            raise KeyError(row)
        bank = self.file.bank
        names = None if bank is None else bank.names
        if names is None:
            return self.images.names[row], self.images.read(row)
        return names[row], self.images.read(self._position[names[row]])


@dataclass(frozen=True)
class _SuiteJob:
    """Runs the network over sets, each into its bank."""

    opened: Opened
    transform: Preprocessing
    settings: Settings
    cache: Path
    suite: Suite
    _found: dict[str, Images] = field(default_factory=dict)

    def by_one_backend(self, found: Mapping[str, _Place]) -> _SuiteJob:
        """Return the job with its backend chosen, once for all sets that are yet to be run.

        The backend of sets that were run before goes first, so that equal images stay equal.
        """
        waiting, before = [], None
        for name, place in found.items():
            if not place.holds_images:
                continue
            images = self._images(name, place)
            ran = bank_settings(self._folder(name, images))
            before = before or ran
            if ran is None:
                waiting.append(images)
        if not waiting:
            return self
        settings = one_backend(
            self.opened,
            waiting[0],
            self.transform,
            self.settings,
            total=sum(map(len, waiting)),
            before=None if before is None else self._as_run(before),
        )
        return replace(self, settings=settings)

    def _as_run(self, before: Mapping[str, Any]) -> Settings:
        same = {key: before.get(key) for key in ("backend", "batch", "threads")}
        return replace(self.settings, **same)  # type: ignore[arg-type]

    def _images(self, name: str, place: _Place) -> Images:
        """Return a set's images, opened once: their fingerprint is kept with them."""
        if name not in self._found:
            images = place.images()
            classes = self._classes(name)
            self._found[name] = images if classes is None else in_order(images, classes)
        return self._found[name]

    def _classes(self, name: str) -> list[str] | None:
        """Return the names of the network's outputs, if the suite has them, for a known set."""
        return None if name in self.suite.ood else list(self.suite.classes) or None

    def _folder(self, name: str, images: Images) -> Path:
        return self.cache / f"{name}-{bank_suffix(self._identity(images))}"

    def features(self, name: str, place: _Place) -> _Set:
        """Return a set's features: as they are in a bank or a feature file, else of its images."""
        if not place.holds_images:
            file = open_features(place.path)
            with about(str(place.path)):
                self.opened.origin(self.transform).check_same(file.origin)
            return _Set(file)
        images = self._images(name, place)
        folder = self._folder(name, images)
        forget_if_changed(folder, self._identity(images))
        with work(name, len(images), UNIT):
            bank = extract(
                images,
                self.opened,
                folder,
                self.transform,
                classes=self._classes(name),
                settings=self.settings,
            )
        not_images = [f"{name}: not an image" for name in images.ignored]
        unread = [reason for _, reason in bank.skipped]
        file = FeatureFile(folder, bank)
        return _Set(file, images, (*images.notes, *not_images, *unread))

    def input_scores(self, suite: Suite, sets: Mapping[str, _Set]) -> dict[str, Arrays]:
        """Return the scores of methods that move the input, by method and set.

        None where the model has no gradients or a set has no images.
        """
        wanted = {name: sets[name].images for name in sets if name != "train"}
        images = {name: found for name, found in wanted.items() if found is not None}
        if len(images) < len(wanted):
            return {}
        train, known = sets["train"], None
        if train.images is not None and isinstance(train.file.bank, Bank):
            known = TrainImages(train, train.file.bank, train.images.fingerprint())
        moved = Moved(self.opened, self.transform, self.settings, self.cache)
        return moved.scores(suite, images, known)

    def _identity(self, images: Images) -> dict[str, Any]:
        return self.opened.identity_of(images, self.transform)


def _transform(suite: Suite, opened: Opened, found: Mapping[str, _Place]) -> Preprocessing:
    """Return the model's preprocessing with what the suite changes, or the suite's own."""
    if opened.transform is not None:
        changed: Preprocessing = replace(opened.transform, **suite.transform)
        return changed
    place = found["train"]
    with about(f"suite {suite.name!r}"):
        if place.holds_images:
            return transform_for(opened, place.images(), suite.transform)
        if not {"resize", "crop"} <= set(suite.transform):
            raise InputError(
                "the model's preprocessing is not known; add resize and crop to [transform]."
            )
        return Preprocessing.from_dict(dict(suite.transform))


def _find_all(suite: Suite, data: Path | None) -> tuple[dict[str, _Place], dict[str, str]]:
    """Return where each set is, and what to do about those that are absent.

    Raise if one of the network's own sets is absent, or if all OOD sets are.
    """
    own = {"train": suite.train, "test": suite.test}
    if suite.calibration is not None:
        own["calibration"] = suite.calibration
    places, missing = {}, {}
    for name, source in {**own, **suite.ood}.items():
        place = _find(suite, source, data)
        if isinstance(place, str):
            missing[name] = place
        else:
            places[name] = place
    if needed := [f"{name} (absent: {missing[name]})" for name in own if name in missing]:
        raise InputError(f"suite {suite.name!r}: lacks {'; '.join(needed)}.")
    if set(suite.ood) <= set(missing):
        listed = "; ".join(f"{name} (absent: {missing[name]})" for name in suite.ood)
        raise InputError(f"suite {suite.name!r}: has none of its OOD sets: {listed}.")
    if clash := sorted(set(own) & set(suite.ood)):
        raise InputError(
            f"suite {suite.name!r}: an OOD set is called {clash[0]!r}; choose another name."
        )
    return places, missing


def _find(suite: Suite, source: Source, data: Path | None) -> _Place | str:
    """Return where a set is, or, if it is absent, what to do about it."""
    if source.path is not None:
        return _find_path(suite, source.path, source, data)
    name = str(source.set)
    for root in _roots(data):
        found = find_set(name, root)
        if found is not None:
            return _Place(found, source.split)
    return how_to_get(name, data)


def _find_path(suite: Suite, path: str, source: Source, data: Path | None) -> _Place | str:
    found = suite.find(path, data)
    if found is None:
        return f"{path} is not there"
    if source.list is None:
        return _Place(found, source.split)
    listing = suite.find(source.list, data)
    if listing is None:
        return f"{source.list} is not there"
    first = read_listing(listing)[0].path
    if not (found / first).exists():
        return f"{path}/{first}, the first of {source.list}, is not there"
    return _Place(found, listing=listing)


def _roots(data: Path | None) -> Iterator[Path]:
    if data is not None:
        yield data
    yield home()


def _check_named(suite: Suite, model: str | None) -> None:
    """Refuse the code that a suite names unless the caller names it: a file runs nothing."""
    if model is not None and model != suite.model:
        raise InputError(
            f"suite {suite.name!r}: its model is {suite.model}, not {model}; name that, or leave "
            f"{argument('model')} out."
        )
    if is_function(suite.model):
        if model is None:
            raise InputError(
                f"suite {suite.name!r}: its network is the function {suite.model}, whose code runs "
                f"only if you name it here: {argument('model', suite.model)}."
            )
        note(f"runs the code of {suite.model}")


def _open(suite: Suite, data: Path | None, trust: bool, model: str | None) -> Opened:
    if suite.model is None:
        raise InputError(f"suite {suite.name!r}: names no model; add one, or pass features.")
    _check_named(suite, model)
    weights: Any = suite.weights
    if weights not in (None, "bundled"):
        weights = suite.find(weights, data)
        if weights is None:
            places = " or ".join(str(place) for place in (suite.folder, data) if place is not None)
            raise InputError(
                f"suite {suite.name!r}: there are no weights {suite.weights}; "
                f"put them into {places or 'a folder that you pass as data'}."
            )
    found = None if ":" in suite.model else suite.find(suite.model, data)
    name = str(found or suite.model)
    if not suite.layers:
        return open_model(name, weights, layer=suite.layer, trust=trust)
    layers = [*suite.layers, suite.layer or "penultimate"]
    return open_model(name, weights, layers=layers, trust=trust)


def _layers(suite: Suite, sets: Mapping[str, _Set]) -> dict[str, Arrays]:
    """Return the other layers' features by layer and set, where every set has a bank with them."""
    banks = {name: entry.file.bank for name, entry in sets.items() if name != "calibration"}
    layers = {}
    for layer in suite.layers:
        arrays = {}
        for name, bank in banks.items():
            if bank is not None and layer in bank.layers:
                arrays[name] = np.asarray(as_floating(bank.layers[layer]))
        if len(arrays) == len(banks):
            layers[layer] = arrays
    return layers
