"""Near-OOD features without OOD data: what a bank's own network makes of changed images of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica.bank import Bank
from typica.data import Images, Preprocessing, in_order
from typica.data.corrupt import corrupted_versions
from typica.errors import InputError, argument, border
from typica.nets import Runner, make_runner, reopen
from typica.progress import advance, note

IMAGES = 256  # of the held-out ones, in each near set


@border
def near_features(
    bank: Bank,
    images: Images,
    held_out: NDArray[np.int64],
    *,
    count: int = IMAGES,
    seed: int = 0,
    model: str | None = None,
    weights: str | Path | None = None,
    trust: bool = False,
    backend: str | None = None,
) -> dict[str, NDArray[np.float32]]:
    """Return the features of corrupted and mixed versions of some held-out images, by kind.

    Parameters
    ----------
    bank, images
        A bank, and the images that it was made of; others are refused.
    held_out
        Rows of the bank.
    count
        How many of these rows to draw at most.
    seed
        Seeds the draw and the corruptions.
    model, weights, trust
        Where the network is, if it has moved, and whether a file that can run code may be loaded.
    backend
        What runs the network. None for the bank's own, with its batch size and threads, so that the
        same bank gives the same features; or the fastest, if that cannot run here.
    """
    if bank.classes is not None and images.classes not in (None, bank.classes):
        images = in_order(images, bank.classes)  # as `extract` was told to
    if images.fingerprint() != bank.identity.get("data"):
        raise InputError(
            "these are not the images that the bank was made of; "
            f"pass those with {argument('images', 'PATH')}."
        )
    opened, transform = reopen(bank.origin, model=model, weights=weights, trust=trust)
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.choice(held_out, min(count, len(held_out)), replace=False))
    rows = _rows_of(bank, images, chosen)
    pixels = np.stack([transform.pixels(images.read(row)) for row in rows])
    labels = None if bank.labels is None else np.asarray(bank.labels[chosen])
    runner = _runner(opened.extractor, bank, backend, transform.normalised(pixels[:32]))
    features = {}
    for name, changed in corrupted_versions(pixels, labels, seed).items():
        parts = []
        for extraction in runner(_batches(changed, transform, runner.batch)):
            parts.append(np.asarray(extraction.features))
            advance(len(parts[-1]))
        features[name] = np.concatenate(parts)
    return features


def _rows_of(bank: Bank, images: Images, chosen: NDArray[np.int64]) -> list[int]:
    """Return where the images of these rows of the bank lie; it may lack some of the images."""
    names = bank.names
    if names is None:
        return list(chosen.tolist())
    position = {name: place for place, name in enumerate(images.names)}
    return [position[names[row]] for row in chosen.tolist()]


def _batches(
    images: NDArray[np.uint8], transform: Preprocessing, size: int
) -> Iterator[NDArray[np.float32]]:
    for start in range(0, len(images), size):
        yield transform.normalised(images[start : start + size])


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
            note(f"the bank's backend cannot run here, so another one is taken ({error})")
    return make_runner(extractor, backend or "auto", sample=sample)
