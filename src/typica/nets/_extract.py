"""Images in, a bank out: it may be stopped at any moment, and is resumed there."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray
from typica.bank import DTYPES, Bank, BankWriter, remove_bank
from typica.checks import choice, count
from typica.data import (
    Batch,
    Images,
    Preprocessing,
    image_batches,
    in_order,
    open_images,
    read_classes,
)
from typica.errors import InputError, argument, border, counted, given
from typica.head import Head
from typica.nets._class_order import doubtful_order, told_order
from typica.nets._extracted_batch import Extraction
from typica.nets._left_out import note_left_out, note_skipped
from typica.nets._network_input import transform_for
from typica.nets._open_model import Opened, open_model
from typica.nets._reduce import Reduction
from typica.nets._runner import Runner
from typica.nets._settings import Settings, checked_settings
from typica.nets._start_runner import start_runner
from typica.origin import feature_layer
from typica.progress import advance, note, work

SHARD = 512  # images: what a run that is killed may lose, minutes of a slow network at most


@border
def extract(
    images: Any,
    model: Any,
    out: str | Path,
    transform: Preprocessing | Mapping[str, Any] | None = None,
    *,
    weights: Any = None,
    layer: str | None = None,
    layers: Sequence[str] | None = None,
    head: str | None = None,
    reduce: Reduction = "mean",
    trust: bool = False,
    labels: Any = None,
    classes: Any = None,
    split: str | None = None,
    settings: Settings | None = None,
    dtype: str = "float32",
    shard_rows: int = SHARD,
    fresh: bool = False,
) -> Bank:
    """Run images through a model and keep features, logits, labels and names in the bank `out`.

        bank = extract("train/", "densenet-bc-100", "train.bank", weights="net.pth.tar")
        detector = CTM().fit(bank)

    A finished bank of the same model, layer, transform and images is returned as it is. One that
    was begun is resumed after its last whole shard, with the backend, batch size, threads and
    versions that it was begun with, and comes out as if it had never stopped. Anything else in its
    place is refused.

    Parameters
    ----------
    images, labels, split
        As `typica.data.open_images` takes them: a path, a list of paths, an array.
    model, weights, layer, layers, head, reduce, trust
        As `open_model` takes them. What `open_model` has opened is taken as it is, without the
        others.
    out
        The folder of the bank.
    transform
        The preprocessing, or some of its settings in a dict; what is left out is the model's own,
        or read off its input and the images.
    classes
        The names of the model's outputs in their order, or a file of them; where labels are named,
        by folders for example, they are brought into this order.
    settings
        What runs the network, and how.
    dtype
        Of the features on disk, "float32", "float16" or "float64".
    shard_rows
        How many images may be lost when a run is killed.
    fresh
        Begin again, whatever bank is there; it is deleted once the network has run on some images.
    """
    settings = checked_settings(settings)
    choice(*DTYPES).check("dtype", dtype)
    count().check("shard_rows", shard_rows)
    asked = {"layer": layer, "layers": layers, "head": head, "reduce": reduce}
    opened = _opened(model, {"weights": weights, **asked, "trust": trust})
    found = open_images(images, labels=labels, split=split)
    note_left_out(found)
    names = None if classes is None else _named(classes)
    if names is not None and found.classes != names:
        found = in_order(found, names)
    chosen = transform_for(opened, found, transform)
    job = _ExtractionJob(opened, found, chosen, settings, named=classes is not None)
    job.place = _place(images, split)
    if fresh:
        job.start()
        remove_bank(out)
    with BankWriter(
        out, job.identity(), settings=job.begin, dtype=dtype, shard_rows=shard_rows
    ) as writer:
        whole = writer.complete
        bank = _complete(Bank.open(out), job.settings) if whole else job.run(writer)
    note_skipped(bank.skipped)
    if not whole:
        _say_if_doubtful(bank)
    return bank


def _opened(model: Any, asked: dict[str, Any]) -> Opened:
    """Return the network, opened; refuse options for one that was open before.

    But for consent, which asks for nothing: who gives it where none is needed gets the same.
    """
    if not isinstance(model, Opened):
        return open_model(model, **asked)
    usual = {"reduce": "mean", "trust": asked["trust"]}
    for name, value in asked.items():
        if value != usual.get(name):
            raise InputError(
                f"{given(name, value)} for a model that is open already; pass it to open_model."
            )
    return model


def _named(classes: Any) -> list[str]:
    a_file = isinstance(classes, str | os.PathLike)
    if a_file:
        return read_classes(classes)
    if not isinstance(classes, Iterable):
        raise InputError(
            f"{given('classes', classes)}; pass the names of the model's outputs, "
            "or a file of them."
        )
    return [str(name) for name in classes]


def _place(images: Any, split: str | None) -> dict[str, str]:
    """Return where images lie, so that whoever has the bank can look at them."""
    if not isinstance(images, str | os.PathLike):
        return {}
    place = {"images": str(Path(images).resolve())}
    return place if split is None else {**place, "split": split}


def _doubt(bank: Bank) -> str | None:
    """Return what to say if the labels would fit the network's outputs in another order."""
    order = doubtful_order(bank)
    if order is None:
        return None
    return (
        f"labels and outputs disagree: {order.top_1:.1%} of the labels are predicted (top-1), "
        f"{order.best:.1%} if the outputs are {told_order(order, bank.classes)}; name them in "
        "that order"
    )


def _say_if_doubtful(bank: Bank) -> None:
    doubt = _doubt(bank)
    if doubt is not None:
        note(
            f"{doubt}, {argument('classes', 'FILE')} of `typica extract` "
            f"({argument('fresh', True)} for the same bank), `classes` of a suite"
        )


@border
def check_class_order(bank: Bank) -> None:
    """Refuse a bank if its labels would fit the network's outputs in another order."""
    doubt = _doubt(bank)
    if doubt is not None:
        raise InputError(f"{doubt}, {argument('classes', 'FILE')}.")


class _ExtractionJob:
    """Images to run through a network, each once."""

    def __init__(
        self,
        opened: Opened,
        images: Images,
        transform: Preprocessing,
        settings: Settings,
        named: bool = False,
    ) -> None:
        self.opened, self.images, self.named = opened, images, named
        self.transform, self.settings = transform, settings
        self.runner: Runner | None = None
        self.place: dict[str, str] = {}  # where the images are, if that is one path

    def identity(self) -> dict[str, Any]:
        """Return what tells the bank from all others."""
        return self.opened.identity_of(self.images, self.transform)

    def start(self) -> Runner:
        """Choose what runs the network, and return it."""
        if self.runner is None:
            self._check_distinct()
            self.runner = start_runner(self.opened, self.images, self.transform, self.settings)
            self._check_classes(self.runner)
        return self.runner

    def _check_classes(self, runner: Runner) -> None:
        """Raise for names that were given for more or fewer outputs than there are."""
        names = self.images.classes or []
        if self.named and runner.outputs not in (None, len(names)):
            raise InputError(
                f"{len(names)} classes for the network's {runner.outputs} outputs; "
                f"name each once, in their order, {argument('classes', 'FILE')}."
            )

    def _check_distinct(self) -> None:
        """Raise, before the network runs, for class names that the bank would not tell apart."""
        names = self.images.classes or []
        if len(set(names)) < len(names):
            raise InputError(
                "the images have classes of the same name; give each a name of its own where the "
                "images lie."
            )

    def begin(self) -> dict[str, Any]:
        """Return the settings of a new bank."""
        files = {
            "model_file": self.opened.model_file,
            "weights_file": self.opened.weights_file,
        }
        return {**self.start().settings, **files, **self.place}

    def continued(self, writer: BankWriter) -> Runner:
        """Return the runner that a bank was begun with; raise if it is no longer available."""
        self._check_distinct()
        pinned = writer.settings
        keys = ("backend", "batch", "threads", "device", "autocast")
        same: dict[str, Any] = {key: pinned.get(key) for key in keys}
        settings = replace(self.settings, **same)
        runner = start_runner(self.opened, self.images, self.transform, settings)
        other = [
            f"{key} {pinned.get(key)} then, {value} now"
            for key, value in runner.settings.items()
            if pinned.get(key) != value
        ]
        if other:
            raise InputError(
                f"{writer.path}: was begun differently ({'; '.join(other)}), and would mix two "
                f"runs; go on as it was begun, or begin again with {argument('fresh', True)}."
            )
        return runner

    def run(self, writer: BankWriter) -> Bank:
        """Run what is not in the bank yet, and finish it."""
        runner = self.runner or self.continued(writer)
        note(self.opened.extractor.describe())
        note(runner.describe())
        with work("extracting", len(self.images), unit="images/s"):
            advance(writer.done)
            self.write(runner, writer)
        return writer.finish(_head(self.opened), self.images.classes)

    def write(self, runner: Runner, writer: BankWriter) -> None:
        """Run what is not in the bank yet."""
        batches = run_through(runner, self.images, self.transform, self.settings, start=writer.done)
        for batch, extraction in batches:
            names = [self.images.names[i] for i in batch.indices.tolist()]
            columns = _columns(extraction, self.images, batch.indices)
            writer.write(columns, names, batch.stop - batch.start, batch.skipped)


def _complete(bank: Bank, settings: Settings) -> Bank:
    if bank.skipped and settings.on_error == "stop":
        raise InputError(
            f"{bank.path}: {counted(len(bank.skipped), 'image')} skipped, e.g. "
            f"{bank.skipped[0][1]}; fix them and begin again with {argument('fresh', True)}, or "
            f"agree with {argument('on_error', 'skip')}."
        )
    return bank


def _columns(
    extraction: Extraction, images: Images, indices: NDArray[np.int64]
) -> dict[str, AnyArray]:
    if not len(indices):
        return {}
    columns = {"features": extraction.features}
    if extraction.logits is not None:
        columns["logits"] = extraction.logits
    if images.labels is not None:
        columns["labels"] = images.labels[indices]
    for name, rows in extraction.layers.items():
        if rows is not extraction.features:
            columns[f"layer.{name}"] = rows
    return columns


def _head(opened: Opened) -> Head | None:
    """Return the head, if the features are its input."""
    if feature_layer(opened.identity.layer) is not None:
        return None
    try:
        head: Head = opened.extractor.head
    except InputError:
        return None
    return head


def run_through(
    runner: Runner, images: Images, transform: Preprocessing, settings: Settings, start: int = 0
) -> Iterator[tuple[Batch, Extraction]]:
    """Yield batches of images, from row `start` on, with what the network makes of them.

    A batch without a readable image is reported with the next one, or comes last, with empty
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
                whole = _with_unreadable(unreadable)
                unreadable.clear()
                waiting.append(whole)
                yield transform.normalised(whole.pixels)

    for extraction in runner(pixels()):
        batch = waiting.popleft()
        advance(batch.stop - batch.start)
        yield batch, extraction
    if unreadable:
        batch = _with_unreadable(unreadable)
        advance(batch.stop - batch.start)
        yield batch, Extraction(None, None, {})


def _with_unreadable(batches: list[Batch]) -> Batch:
    """Return the batch to run through the network, widened over the unreadable ones before it."""
    skipped = []
    for batch in batches:
        skipped += batch.skipped
    return batches[-1]._replace(start=batches[0].start, skipped=skipped)
