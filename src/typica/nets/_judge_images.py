"""Images in, verdicts out: the network that a detector was fitted for is opened and run on them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from typica.arrays import AnyArray, to_numpy
from typica.data import open_images
from typica.decide import judge
from typica.detectors import Estimator
from typica.errors import InputError, argument, border, counted
from typica.nets._input_reader import InputReader
from typica.nets._settings import Settings
from typica.progress import work
from typica.verdicts import Verdicts
from typica.written_numbers import Level


@border
def judge_images(
    estimator: Estimator,
    images: Any,
    *,
    alpha: Level | None = None,
    tpr: Level | None = None,
    confidence: Level | None = None,
    fdr: Level | None = None,
    groups: Any = None,
    model: Any = None,
    weights: Any = None,
    transform: Any = None,
    trust: bool = False,
    settings: Settings | None = None,
) -> Verdicts:
    """Return the verdicts of a detector, or of a Pipeline that ends in one, on images.

        bank = extract("train/", "resnet-50", "train.bank", weights="resnet50.pth")
        judge_images(CTM().fit(bank), "photo.jpg")

    The images go through the network that made the features of the detector's bank.

    Parameters
    ----------
    estimator
        A fitted detector, or a fitted Pipeline that ends in one.
    images
        A path of an image, folder or archive, or several; an array; a Pillow image or a list of
        them: as `typica.data.open_images` takes them.
    alpha, tpr, confidence, fdr, groups
        As `typica.judge` takes them; groups: what each image belongs to, also for those that are
        left out.
    model, weights
        The network, or where it is now, if it has moved. A detector cannot make the code of a
        function, `package.module:function`, run: it must be named here.
    transform
        The preprocessing, as `extract` takes it, where the detector was fitted on plain features
        and remembers none.
    trust
        Whether a TorchScript or .pt2 file may be loaded, which can run code.
    settings
        What runs the network, and how. With on_error="skip" images that cannot be read are left
        out; `file` tells which image each verdict is on.
    """
    found = open_images(images)
    ids = None if groups is None else _one_per_image(groups, len(found))
    network = {"model": model, "weights": weights, "transform": transform, "trust": trust}
    seen = InputReader.of(estimator, **network, settings=settings).see(found)
    names = np.array([found.names[i] for i in seen.indices.tolist()], dtype=np.str_)
    ids = None if ids is None else ids[seen.indices]
    with work("scoring", len(names)):
        verdicts = judge(estimator, seen.rows, alpha, confidence, fdr, tpr=tpr, groups=ids)
    if verdicts.groups is not None:
        strangest = seen.indices[verdicts.groups.strangest]
        verdicts = replace(verdicts, groups=replace(verdicts.groups, strangest=strangest))
    return replace(verdicts, file=names, row=seen.indices)


def _one_per_image(groups: Any, count: int) -> AnyArray:
    """Return the groups of images; raise unless there is one for each."""
    ids = to_numpy(groups)
    if ids.shape != (count,):
        raise InputError(
            f"{argument('groups')} of shape {ids.shape} for {counted(count, 'image')}; "
            "pass one per image."
        )
    return ids
