"""Near-OOD inputs without any OOD data: images of the bank, corrupted and mixed, through the bank's own network."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica.bank import Bank
from typica.data import Images
from typica.data.corrupt import CORRUPTIONS, mixed
from typica.errors import InputError, about
from typica.nets import Runner, make_runner, reopen
from typica.progress import advance

_log = logging.getLogger("typica.bench")

PICTURES = 256  # of the held-out ones, in each near set


def near_features(
    bank: Bank,
    images: Images,
    held_out: NDArray[np.int64],
    *,
    pictures: int = PICTURES,
    seed: int = 0,
    model: str | None = None,
    weights: str | Path | None = None,
    trust: bool = False,
    backend: str | None = None,
) -> dict[str, NDArray[np.float32]]:
    """Return the features of corrupted and mixed versions of some of the bank's rows `held_out`, by kind.

    `images` must be the images that the bank was made of: its fingerprint tells. backend: None for
    the bank's own, with its batch size and threads, so that the same bank gives the same features;
    the quickest if that cannot run.
    """
    if images.fingerprint() != bank.identity.get("data"):
        raise InputError(
            "choose: these are not the images that the bank was made of; pass those with --images."
        )
    with about("choose"):
        opened, transform = reopen(bank.origin, model=model, weights=weights, trust=trust)
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.choice(held_out, min(pictures, len(held_out)), replace=False))
    position = {name: i for i, name in enumerate(images.names)}
    names = bank.names
    rows = [position[names[i]] for i in chosen.tolist()] if names is not None else chosen.tolist()
    pixels = np.stack([transform.pixels(images.read(i)) for i in rows])
    sets = {name: corrupted(pixels, seed) for name, corrupted in CORRUPTIONS.items()}
    if bank.labels is not None:
        labels = np.asarray(bank.labels[chosen])
        sets |= {
            "mixed": mixed(pixels, labels, seed),
            "halves": mixed(pixels, labels, seed, how="halves"),
        }
    runner = _runner(opened.extractor, bank, backend, transform.normalised(pixels[:32]))

    def batches(what: NDArray[np.uint8]) -> Iterator[NDArray[np.float32]]:
        for start in range(0, len(what), runner.batch):
            yield transform.normalised(what[start : start + runner.batch])

    features = {}
    for name, what in sets.items():
        parts = []
        for extraction in runner(batches(what)):
            parts.append(np.asarray(extraction.features))
            advance(len(parts[-1]))
        features[name] = np.concatenate(parts)
    return features


def _runner(extractor: Any, bank: Bank, backend: str | None, sample: NDArray[np.float32]) -> Runner:
    own = bank.settings
    if backend is None and own.get("backend"):
        try:
            return make_runner(
                extractor,
                own["backend"],
                sample=sample,
                batch=own.get("batch"),
                threads=own.get("threads"),
            )
        except InputError as error:
            _log.warning("the bank's backend cannot run here, another one is taken (%s)", error)
    return make_runner(extractor, backend or "auto", sample=sample)
