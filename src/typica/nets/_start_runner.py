"""What runs a network over images: the backend that was asked for, or the quickest, found once."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica.data import Images, Preprocessing, image_batches
from typica.errors import InputError, border
from typica.nets._fastest_backend import make_runner
from typica.nets._left_out import none_readable
from typica.nets._open_model import Opened
from typica.nets._remembered_backend import FastBackend, choice_file, read_choice, write_choice
from typica.nets._runner import Runner
from typica.nets._settings import Settings
from typica.progress import note

TRIAL = 32  # images that `backend="auto"` tries the backends on


@border
def one_backend(
    opened: Opened,
    images: Images,
    transform: Preprocessing,
    settings: Settings,
    *,
    total: int | None = None,
    before: Settings | None = None,
) -> Settings:
    """Return the settings with one backend in place of "auto", the same for several sets of images.

    Parameters
    ----------
    opened, transform
        The network, and the preprocessing of its images.
    images
        Some of the images.
    settings
        Those asked for; with another backend than "auto" they are returned as they are.
    total
        How many images there are in all.
    before
        The settings that other sets were run with, which are taken again if they still work.
    """
    if settings.backend != "auto":
        return settings
    runner = None
    if before is not None:
        runner = _or_none(opened, before, _sample(images, transform))
    if runner is None:
        runner = start_runner(opened, images, transform, settings, total)
    note(runner.describe())
    return replace(
        settings, backend=runner.name, batch=runner.batch, threads=runner.settings["threads"]
    )


def start_runner(
    opened: Opened,
    images: Images,
    transform: Preprocessing,
    settings: Settings,
    total: int | None = None,
) -> Runner:
    """Return what runs the network, tried on the first images that can be read.

    total: how many images it is to run, if there are others. What "auto" has found to be the
    quickest is remembered, and taken again where nothing has changed.
    """
    sample, count = _sample(images, transform), total or len(images)
    if settings.backend != "auto":
        return _made(opened, settings, sample, count)
    file = choice_file(opened.identity.to_dict(), sample.shape[1:], settings)
    choice = read_choice(file)
    if choice is not None and choice.holds_for(count):
        runner = _as_before(opened, settings, sample, choice)
        if runner is not None:
            return runner
    start = perf_counter()
    runner = _made(opened, settings, sample, count)
    seconds = perf_counter() - start
    runner.chosen = f"chosen in {seconds:.1f} s"
    given = (runner.name, runner.batch, int(runner.settings["threads"]))
    write_choice(file, FastBackend(*given, round(seconds, 1), count if runner.cut_short else None))
    return runner


def _as_before(
    opened: Opened, settings: Settings, sample: NDArray[np.float32], choice: FastBackend
) -> Runner | None:
    """Return the runner that was chosen before; None where it is no longer available."""
    same: dict[str, Any] = {
        "backend": choice.backend,
        "batch": choice.batch,
        "threads": choice.threads,
    }
    runner = _or_none(opened, replace(settings, **same), sample)
    if runner is not None:
        runner.chosen = f"as chosen before, in {choice.seconds:.1f} s"
    return runner


def _or_none(opened: Opened, settings: Settings, sample: NDArray[np.float32]) -> Runner | None:
    try:
        return _made(opened, settings, sample, None)
    except InputError as error:
        note(f"the backend that was chosen before cannot run, others are tried ({error})")
        return None


def _made(
    opened: Opened, settings: Settings, sample: NDArray[np.float32], images: int | None
) -> Runner:
    return make_runner(
        opened.extractor,
        settings.backend,
        sample=sample,
        batch=settings.batch,
        threads=settings.threads,
        device=settings.device,
        autocast=settings.autocast,
        images=images,
    )


def _sample(images: Images, transform: Preprocessing) -> NDArray[np.float32]:
    """Return the first images that can be read, as the network takes them."""
    for batch in image_batches(images, transform, min(TRIAL, len(images)), on_error="skip"):
        if len(batch.indices):
            return transform.normalised(batch.pixels)
    raise none_readable(images)
