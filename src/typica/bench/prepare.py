"""From a suite and a folder of data to features: networks run once, into banks that later runs open.

A bank's folder is named after what it holds and a fingerprint of all that made it, so a suite that
changes its model, transform or data gets banks of its own, and one that was interrupted goes on
where it was.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica.arrays import as_floating
from typica.bank import Bank, BankWriter
from typica.bench._schema import IMAGE_METHODS, method_params
from typica.bench.config import Source, Suite
from typica.bench.suite import FeatureSuite
from typica.data import (
    Images,
    Preprocessing,
    check_origin,
    find_head,
    holds_images,
    image_batches,
    open_images,
    origin_of,
    read_features,
)
from typica.data.sets import find_set, how_to_get, set_home
from typica.errors import InputError
from typica.extras import need
from typica.nets import ODIN, FeatureExtractor, Opened, Settings, extract, open_model
from typica.progress import advance

Watch = Callable[
    [str, int], AbstractContextManager[None]
]  # of what is done, and on how many images


@dataclass(frozen=True)
class _Loaded:
    """One set: where its features lie, and its images where there are any."""

    path: Path
    pictures: Images | None
    left_out: list[str]


def prepare(
    suite: Suite,
    data: Path | None,
    *,
    cache: Path | None = None,
    settings: Settings | None = None,
    trust: bool = False,
    watch: Watch = lambda what, total: nullcontext(),
) -> FeatureSuite:
    """Return a suite's features, of the images in the folder `data` or of banks; absent OOD sets are in `missing`.

    cache: where banks are kept, `banks` in Typica's home if None. `watch` is entered with what is
    being worked on.
    """
    settings = settings or Settings()
    found, missing = _find_all(suite, data)
    opened = _open(suite, data, trust)
    transform = replace(opened.transform, **suite.transform) if opened.transform else _whole(suite)
    work = _Work(opened, transform, settings, cache or set_home() / "banks", watch)
    loaded = {name: work.features(name, path, source) for name, (path, source) in found.items()}
    tables = {name: read_features(entry.path) for name, entry in loaded.items()}
    for name in ("train", "test", "calibration"):
        if name in tables and tables[name].labels is None:
            raise InputError(
                f"suite {suite.name!r}: {name} has no labels; keep its images in one folder a class."
            )
    head = find_head(None, loaded["train"].path)
    rows = {name: np.asarray(as_floating(table.features)) for name, table in tables.items()}
    labels = {name: table.labels for name, table in tables.items()}
    test_labels: Any = labels["test"]
    ood = [name for name in suite.ood if name in loaded]
    return FeatureSuite(
        name=suite.name,
        title=suite.title,
        train=rows["train"],
        train_labels=labels["train"],  # type: ignore[arg-type]
        calibration=rows.get("calibration"),
        calibration_labels=labels.get("calibration"),
        test=rows["test"],
        test_labels=test_labels,
        ood={name: rows[name] for name in ood},
        near=frozenset(suite.near) & set(ood),
        head_weight=None if head is None else head.weight,
        head_bias=None if head is None else head.bias,
        classes=None if head is None else head.classes,
        accuracy=None
        if head is None
        else float(np.mean(head.predict(rows["test"]) == test_labels)),
        layers=_layers(suite, loaded),
        scores=work.input_scores(suite, {name: loaded[name] for name in ("test", *ood)}),
        missing=missing,
        left_out={name: entry.left_out for name, entry in loaded.items() if entry.left_out},
        pictures={
            name: _Pictures(entry) for name, entry in loaded.items() if entry.pictures is not None
        },
    )


class _Pictures:
    """The images of a set by the row of their features, which may lack some that could not be read."""

    def __init__(self, entry: _Loaded) -> None:
        self._images = entry.pictures
        self._bank = entry.path
        self._position: dict[str, int] | None = None

    def __getitem__(self, row: int) -> tuple[str, Any]:
        """Return the name and the image of a row."""
        if self._images is None:
            raise KeyError(row)
        names = Bank.open(self._bank).names
        if names is None:
            return self._images.names[row], self._images.read(row)
        if self._position is None:
            self._position = {name: i for i, name in enumerate(self._images.names)}
        return names[row], self._images.read(self._position[names[row]])


@dataclass(frozen=True)
class _Work:
    """Runs the network over sets, each into its bank."""

    opened: Opened
    transform: Preprocessing
    settings: Settings
    cache: Path
    watch: Watch

    def features(self, name: str, path: Path, source: Source) -> _Loaded:
        """Return a set's features: as they are in a bank or a feature file, else of its images."""
        if not holds_images(path):
            check_origin(path, origin_of(path), self.opened.origin(self.transform))
            return _Loaded(path, None, [])
        images = open_images(path, split=source.split)
        folder = self.cache / f"{name}-{_digest(self._identity(images))}"
        with self.watch(name, len(images)):
            bank = extract(images, self.opened, folder, self.transform, settings=self.settings)
        unread = [reason for _, reason in bank.skipped]
        return _Loaded(
            folder,
            images,
            [*images.notes, *(f"{name}: no image" for name in images.ignored), *unread],
        )

    def input_scores(
        self, suite: Suite, sets: Mapping[str, _Loaded]
    ) -> dict[str, dict[str, NDArray[Any]]]:
        """Return the scores of methods that move the input, where the model has gradients and all sets images."""
        pictures = {
            name: entry.pictures for name, entry in sets.items() if entry.pictures is not None
        }
        if len(pictures) < len(sets) or not isinstance(self.opened.extractor, FeatureExtractor):
            return {}
        methods = {name: method_params(name) | dict(suite.methods[name]) for name in suite.methods}
        return {
            method: {name: self._odin(name, images, params) for name, images in pictures.items()}
            for method, params in methods.items()
            if method in IMAGE_METHODS
        }

    def _odin(self, name: str, images: Images, params: Mapping[str, Any]) -> NDArray[Any]:
        """Return one score an image, kept in a bank of one column."""
        identity = {**self._identity(images), "method": "odin", **params}
        detector = ODIN(self.opened.extractor, **params, std=self.transform.std)
        folder = self.cache / f"{name}-odin-{_digest(identity)}"
        pinned = {
            "batch": self.settings.batch or 50,
            "threads": need("torch", "torch").get_num_threads(),
            "torch": need("torch", "torch").__version__,
        }
        with BankWriter(folder, identity, settings=pinned, shard_rows=500) as writer:
            if writer.complete:
                return np.asarray(writer.finish().features)[:, 0]
            if writer.settings != pinned:
                raise InputError(
                    f"{folder}: was begun with {writer.settings}, and this is {pinned}; go on as it was begun, or "
                    "delete the folder."
                )
            size, done = pinned["batch"], writer.done
            with self.watch(f"{name}, ODIN", len(images)):
                advance(done)
                for batch in image_batches(
                    images, self.transform, size, start=done, on_error=self.settings.on_error
                ):
                    columns = {}
                    if len(batch.indices):
                        scores = detector.score_samples(
                            self.transform.normalised(batch.pixels), batch_size=size
                        )
                        columns = {"features": scores.numpy()[:, None]}
                    writer.write(columns, None, batch.stop - batch.start, batch.skipped)
                    advance(batch.stop - batch.start)
            return np.asarray(writer.finish().features)[:, 0]

    def _identity(self, images: Images) -> dict[str, Any]:
        return {
            **self.opened.identity,
            "transform": self.transform.to_dict(),
            "data": images.fingerprint(),
        }


def _digest(identity: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]


def _find_all(
    suite: Suite, data: Path | None
) -> tuple[dict[str, tuple[Path, Source]], dict[str, str]]:
    """Return where each set lies, and what to do about those that are absent; raise if the network's own are."""
    own = {"train": suite.train, "test": suite.test}
    own |= {} if suite.calibration is None else {"calibration": suite.calibration}
    places = {
        name: (_find(suite, source, data), source) for name, source in {**own, **suite.ood}.items()
    }
    missing = {
        name: _advice(source, data) for name, (path, source) in places.items() if path is None
    }
    if needed := [f"{name} ({missing[name]})" for name in own if name in missing]:
        raise InputError(f"suite {suite.name!r}: lacks {'; '.join(needed)}.")
    if set(suite.ood) <= set(missing):
        listed = "; ".join(f"{name} ({missing[name]})" for name in suite.ood)
        raise InputError(f"suite {suite.name!r}: has none of its OOD sets: {listed}.")
    if clash := sorted(set(own) & set(suite.ood)):
        raise InputError(
            f"suite {suite.name!r}: an OOD set is called {clash[0]!r}; choose another name."
        )
    return {
        name: (path, source) for name, (path, source) in places.items() if path is not None
    }, missing


def _find(suite: Suite, source: Source, data: Path | None) -> Path | None:
    if source.path is not None:
        return suite.find(source.path, data)
    name = str(source.set)
    for root in _roots(data):
        found = find_set(name, root)
        if found is not None:
            return found
    return None


def _roots(data: Path | None) -> Iterator[Path]:
    if data is not None:
        yield data
    yield set_home()


def _advice(source: Source, data: Path | None) -> str:
    if source.path is not None:
        return f"absent: {source.path} is not there"
    return f"absent: {how_to_get(str(source.set), data)}"


def _open(suite: Suite, data: Path | None, trust: bool) -> Opened:
    if suite.model is None:
        raise InputError(f"suite {suite.name!r}: names no model; add one, or pass --features.")
    weights: Any = suite.weights
    if weights not in (None, "bundled"):
        weights = suite.find(weights, data)
        if weights is None:
            raise InputError(
                f"suite {suite.name!r}: the weights {suite.weights} are not in {data}; put them there."
            )
    model = suite.find(suite.model, data) if ":" not in suite.model else None
    layers = [*suite.layers, suite.layer or "penultimate"] if suite.layers else None
    return open_model(
        str(model or suite.model),
        weights,
        layer=None if layers else suite.layer,
        layers=layers,
        trust=trust,
    )


def _whole(suite: Suite) -> Preprocessing:
    if not {"resize", "crop"} <= set(suite.transform):
        raise InputError(
            f"suite {suite.name!r}: the model's preprocessing is not known; add resize and crop to it."
        )
    return Preprocessing.from_dict(dict(suite.transform))


def _layers(suite: Suite, loaded: Mapping[str, _Loaded]) -> dict[str, dict[str, NDArray[Any]]]:
    """Return the other layers' features by layer and set, where every set is a bank that has them."""
    sets = {name: entry for name, entry in loaded.items() if name != "calibration"}
    if not suite.layers or not all(Bank.is_bank(entry.path) for entry in sets.values()):
        return {}
    banks = {name: Bank.open(entry.path) for name, entry in sets.items()}
    return {
        layer: {name: np.asarray(as_floating(bank.layers[layer])) for name, bank in banks.items()}
        for layer in suite.layers
        if all(layer in bank.layers for bank in banks.values())
    }
