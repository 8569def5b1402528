"""Scores of methods that move the input: the network runs forward and back, once for each image.

They are kept in banks of one column, beside those of the features; interrupted work is resumed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray
from typica.bank import Bank, BankWriter
from typica.bench._image_banks import bank_suffix, forget_if_changed
from typica.bench._schema import CHOSEN, IMAGE_METHODS, OF_TRANSFORM, method_params
from typica.bench._suite import Suite
from typica.data import Images, Preprocessing, image_batches
from typica.detectors import LayerEnsemble
from typica.errors import InputError
from typica.extras import need
from typica.nets import ODIN, FeatureExtractor, LayerPerturb, Opened, Settings
from typica.origin import PENULTIMATE
from typica.progress import advance, note, work

BATCH = 50
Scorer = Callable[[AnyArray, int], AnyArray]  # inputs and how many at once, to scores


@dataclass(frozen=True)
class TrainImages:
    """Training images with the bank of their features, for methods that learn from both."""

    images: Any  # gives (name, image) for the number of a row
    bank: Bank
    digest: str


@dataclass(frozen=True)
class Moved:
    """Runs image methods, which move the input, over images, each into its bank."""

    opened: Opened
    transform: Preprocessing
    settings: Settings
    cache: Path

    def scores(
        self, suite: Suite, sets: Mapping[str, Images], known: TrainImages | None
    ) -> dict[str, dict[str, AnyArray]]:
        """Return the scores by method and set; none where the model has no gradients."""
        if not isinstance(self.opened.extractor, FeatureExtractor):
            return {}
        found = {}
        for method in suite.methods:
            if method not in IMAGE_METHODS:
                continue
            params = method_params(method) | dict(suite.methods[method])
            if method == "odin":
                make = cache(lambda params=params: self._odin(params))
                learnt_from: dict[str, Any] = {}
            elif known is not None and known.bank.layers:
                make = cache(lambda params=params: self._layers(params, known))
                learnt_from = {"train": known.digest}
            else:
                continue
            identity = {"method": method, **self._step(params), **learnt_from}
            found[method] = {
                name: self._kept(name, images, identity, make) for name, images in sets.items()
            }
        return found

    def _step(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters without those that come from the transform."""
        return {key: value for key, value in params.items() if value != OF_TRANSFORM}

    def _std(self, params: Mapping[str, Any]) -> Any:
        return self.transform.std if params["std"] == OF_TRANSFORM else params["std"]

    def _odin(self, params: Mapping[str, Any]) -> Scorer:
        odin = ODIN(
            self.opened.extractor,
            T=params["T"],
            epsilon=params["epsilon"],
            std=self._std(params),
        )
        return lambda inputs, size: odin.score_samples(inputs, batch_size=size).numpy()

    def _layers(self, params: Mapping[str, Any], known: TrainImages) -> Scorer:
        """Fit Mahalanobis on each layer; learn weights, and maybe the step, from known images."""
        layers = params["layers"] or [*known.bank.layers, PENULTIMATE]
        ensemble = LayerEnsemble(layers=layers, combine="linear").fit(known.bank)
        chosen = params["epsilon"] == CHOSEN
        start = 0.0 if chosen else params["epsilon"]
        detector = LayerPerturb(self.opened.extractor, ensemble, start, self._std(params))
        count = min(params["images"], len(known.bank))
        rows = np.linspace(0, len(known.bank) - 1, count).round().astype(int)
        pixels = self.transform([known.images[row][1] for row in rows.tolist()])
        steps = {} if chosen else {"steps": None}
        with work("learning the layers' weights", None, unit="images/s"):
            detector.learn(pixels, misleading=params["misleading"], batch_size=BATCH, **steps)
        if chosen:
            note(f"mahalanobis_layers: epsilon={detector.epsilon:g}, chosen on training images")
        return detector.score_samples

    def _kept(
        self, name: str, images: Images, method: Mapping[str, Any], make: Callable[[], Scorer]
    ) -> AnyArray:
        """Return one score per image, kept in a bank of one column."""
        identity = {**self.opened.identity_of(images, self.transform), **method}
        folder = self.cache / f"{name}-{method['method']}-{bank_suffix(identity)}"
        forget_if_changed(folder, identity)
        torch = need("torch", "torch")
        pinned = {
            "batch": self.settings.batch or BATCH,
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
        }
        with BankWriter(folder, identity, settings=pinned, shard_rows=500) as writer:
            if not writer.complete:
                if writer.settings != pinned:
                    raise InputError(
                        f"{folder}: was begun with {writer.settings}, and this is {pinned}; "
                        "go on as it was begun, or delete the folder."
                    )
                scorer = make()
                with work(f"{name}, {method['method']}", len(images), "images/s"):
                    self._write(writer, images, scorer, pinned["batch"])
            return np.asarray(writer.finish().features)[:, 0]

    def _write(self, writer: BankWriter, images: Images, scorer: Scorer, size: int) -> None:
        batches = image_batches(
            images, self.transform, size, start=writer.done, on_error=self.settings.on_error
        )
        advance(writer.done)
        for batch in batches:
            columns: dict[str, NDArray[np.float32]] = {}
            if len(batch.indices):
                inputs = self.transform.normalised(batch.pixels)
                scores = np.asarray(scorer(inputs, size), dtype=np.float32)
                columns = {"features": scores[:, None]}
            writer.write(columns, None, batch.stop - batch.start, batch.skipped)
            advance(batch.stop - batch.start)
