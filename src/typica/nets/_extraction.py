"""Images in, a bank out: read, preprocess, run, write, all at once; stopped at any moment it goes on where it was."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from typica.bank import Bank, BankWriter, remove_bank
from typica.data import Batch, Images, Preprocessing, image_batches
from typica.errors import InputError
from typica.head import Head
from typica.nets._input import chosen, reads_logits
from typica.nets._models import Opened
from typica.nets._result import Extraction
from typica.nets.engines import Runner, make_runner
from typica.nets.extractors.onnx import OnnxExtractor
from typica.origin import feature_layer
from typica.progress import advance

OnError = Literal["stop", "skip"]
SHARD = 512  # images: what a run that is killed may lose, minutes of a slow network at most
TRIAL = 32  # images that `backend="auto"` tries the backends on
WORTH_A_TRIAL = 256  # images, from which on looking for a faster backend saves time


@dataclass(frozen=True)
class Settings:
    """How images are run through a network; None leaves the choice to the backend.

    backend: "auto", "torch", "compile", "onnx", "openvino" or "mnn". on_error: "stop" at an image
    that cannot be read, or "skip" it and say so. workers: threads that decode.
    """

    backend: str = "auto"
    batch: int | None = None
    threads: int | None = None
    device: str | None = None
    autocast: bool = False
    on_error: OnError = "stop"
    workers: int | None = None


def extract(
    opened: Opened,
    images: Images,
    out: str | Path,
    transform: Preprocessing | None = None,
    *,
    settings: Settings | None = None,
    dtype: str = "float32",
    model_file: str | None = None,
    weights_file: str | Path | None = None,
    shard_rows: int = SHARD,
    fresh: bool = False,
    on_runner: Callable[[Runner], None] = lambda runner: None,
) -> Bank:
    """Run images through a model and keep features, logits, labels and names in the bank `out`.

    transform: the preprocessing, the model's own if None. A bank of the same model, layer,
    transform and images is returned as it is; one that was begun goes on at its last whole shard,
    with the backend, batch size, threads and versions that it was begun with, and ends as if it had
    never stopped. Anything else in its place is refused. fresh: begin again, whatever bank is
    there; it is deleted once the network has run on some of the images. model_file, weights_file:
    noted in the bank, so that a detector fitted on it finds the model again. `on_runner` is called
    with what runs the network, once it is known.
    """
    transform = transform if transform is not None else opened.transform
    if transform is None:
        raise InputError(
            f"extract: the preprocessing of {opened.identity['model']} is not known; pass a transform."
        )
    settings = settings or Settings()
    identity = {**opened.identity, "transform": transform.to_dict(), "data": images.fingerprint()}
    runner: Runner | None = None
    started: Runner | None = None
    if fresh:
        started = start_runner(opened, images, transform, settings)
        remove_bank(out)

    def begin() -> dict[str, Any]:
        nonlocal runner
        runner = started or start_runner(opened, images, transform, settings)
        files = {
            "model_file": model_file,
            "weights_file": None if weights_file is None else str(weights_file),
        }
        return {**runner.settings, **files}

    with BankWriter(out, identity, settings=begin, dtype=dtype, shard_rows=shard_rows) as writer:
        if writer.complete:
            return _complete(Bank.open(out), settings)
        if runner is None:
            runner = _same_runner(opened, images, transform, settings, writer)
        on_runner(runner)
        advance(writer.done)
        for batch, extraction in run_through(
            runner, images, transform, settings, start=writer.done
        ):
            names = [images.names[i] for i in batch.indices.tolist()]
            writer.write(
                _columns(extraction, images, batch.indices),
                names,
                batch.stop - batch.start,
                batch.skipped,
            )
        return writer.finish(_head(opened), images.classes)


def _complete(bank: Bank, settings: Settings) -> Bank:
    if bank.skipped and settings.on_error == "stop":
        raise InputError(
            f"{bank.path}: lacks {len(bank.skipped)} images that were skipped, e.g. {bank.skipped[0][1]}; mend them "
            "and begin again with --fresh, or agree with --on-error skip."
        )
    return bank


def _columns(
    extraction: Extraction, images: Images, indices: NDArray[np.int64]
) -> dict[str, NDArray[Any]]:
    if not len(indices):
        return {}
    columns = {"features": extraction.features, "logits": extraction.logits}
    columns["labels"] = None if images.labels is None else images.labels[indices]
    others = [
        name for name in extraction.layers if extraction.layers[name] is not extraction.features
    ]
    columns |= {f"layer.{name}": extraction.layers[name] for name in others}
    return {name: column for name, column in columns.items() if column is not None}


def _head(opened: Opened) -> Head | None:
    """Return the head, if the features are its input."""
    try:
        head = opened.extractor.head
    except InputError:
        return None
    return head if feature_layer(opened.identity["layer"]) is None else None


def start_runner(
    opened: Opened, images: Images, transform: Preprocessing, settings: Settings
) -> Runner:
    """Return what runs the network, tried on the first images that can be read."""
    return make_runner(
        opened.extractor,
        settings.backend,
        sample=_sample(images, transform),
        batch=settings.batch,
        threads=settings.threads,
        device=settings.device,
        autocast=settings.autocast,
        images=len(images),
    )


def _same_runner(
    opened: Opened, images: Images, transform: Preprocessing, settings: Settings, writer: BankWriter
) -> Runner:
    """Return the runner that a bank was begun with; refuse if it cannot be had any more."""
    pinned = writer.settings
    chosen: dict[str, Any] = {
        key: pinned.get(key) for key in ("backend", "batch", "threads", "device", "autocast")
    }
    runner = start_runner(opened, images, transform, replace(settings, **chosen))
    other = [
        f"{key} {pinned.get(key)} then, {value} now"
        for key, value in runner.settings.items()
        if pinned.get(key) != value
    ]
    if other:
        raise InputError(
            f"{writer.path}: was begun otherwise ({'; '.join(other)}), and would not end as one piece; go on as it was "
            "begun, or begin again with --fresh."
        )
    return runner


def run_through(
    runner: Runner, images: Images, transform: Preprocessing, settings: Settings, start: int = 0
) -> Iterator[tuple[Batch, Extraction]]:
    """Yield batches of images, from row `start` on, with what the network makes of them.

    A batch none of whose images can be read is told of with the next one, or comes last, with empty
    arrays.
    """
    waiting: deque[Batch] = deque()
    unreadable: list[Batch] = []

    def pixels() -> Iterator[NDArray[np.float32]]:
        source = image_batches(
            images,
            transform,
            runner.batch,
            start=start,
            on_error=settings.on_error,
            workers=settings.workers,
        )
        for batch in source:
            unreadable.append(batch)
            if len(batch.indices):
                whole = _joined(unreadable)
                unreadable.clear()
                waiting.append(whole)
                yield transform.normalised(whole.pixels)

    for extraction in runner(pixels()):
        batch = waiting.popleft()
        advance(batch.stop - batch.start)
        yield batch, extraction
    if unreadable:
        batch = _joined(unreadable)
        advance(batch.stop - batch.start)
        yield batch, Extraction(None, None, {})


def _joined(batches: list[Batch]) -> Batch:
    """Return the last batch as one that also covers those before it, of which nothing could be read."""
    skipped = [entry for batch in batches for entry in batch.skipped]
    return batches[-1]._replace(start=batches[0].start, skipped=skipped)


def _sample(images: Images, transform: Preprocessing) -> NDArray[np.float32]:
    """Return the first images that can be read, as the network takes them."""
    for batch in image_batches(images, transform, min(TRIAL, len(images)), on_error="skip"):
        if len(batch.indices):
            return transform.normalised(batch.pixels)
    raise InputError(
        f"extract: none of the {len(images)} images can be read, e.g. {images.names[0]}; look at them."
    )


class Seen(NamedTuple):
    """What a detector reads of images: rows, which image each row is of, and (name, reason) of those left out."""

    rows: NDArray[Any]
    indices: NDArray[np.int64]
    skipped: list[tuple[str, str]]


def features_of(
    opened: Opened,
    images: Images,
    transform: Preprocessing,
    estimator: Any,
    settings: Settings | None = None,
) -> Seen:
    """Return what a detector, or a Pipeline that ends in one, reads of images: features, or logits."""
    settings = settings or Settings()
    if settings.backend == "auto" and len(images) < WORTH_A_TRIAL:
        plain = "onnx" if isinstance(opened.extractor, OnnxExtractor) else "torch"
        settings = replace(settings, backend=plain, threads=settings.threads or 1)
    logits = reads_logits(estimator, "score")
    runner = start_runner(opened, images, transform, settings)
    rows, indices, skipped = [], [], []
    for batch, extraction in run_through(runner, images, transform, settings):
        skipped += batch.skipped
        if len(batch.indices):
            rows.append(chosen(extraction, logits, "score"))
            indices.append(batch.indices)
    return Seen(np.concatenate(rows), np.concatenate(indices), skipped)
