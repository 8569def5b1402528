"""Images in, their stories out: why each was accepted or rejected."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from typica.data import open_images
from typica.decide import explain
from typica.detectors import Estimator
from typica.errors import border
from typica.explanation import Explanation
from typica.nets._input_reader import InputReader
from typica.nets._settings import Settings


@border
def explain_images(
    estimator: Estimator,
    images: Any,
    bank: Any = None,
    *,
    model: Any = None,
    weights: Any = None,
    transform: Any = None,
    trust: bool = False,
    settings: Settings | None = None,
    **options: Any,
) -> list[Explanation]:
    """Explain the decision of a detector, or of a Pipeline that ends in one, on each image.

        explain_images(detector, "photo.jpg", bank=Bank.open("train.bank"))[0]

    Parameters
    ----------
    estimator
        A fitted detector, or a fitted Pipeline that ends in one.
    images
        As `typica.data.open_images` takes them: a path, a list of paths, an array.
    bank
        Known inputs; each explanation names the nearest of them.
    model, weights, transform, trust, settings
        As `judge_images` takes them.
    **options
        Those of `typica.explain`.
    """
    found = open_images(images)
    network = {"model": model, "weights": weights, "transform": transform, "trust": trust}
    seen = InputReader.of(estimator, **network, settings=settings).see(found)
    told = explain(estimator, seen.rows, bank, **options)
    numbers = seen.indices.tolist()
    return [replace(one, file=found.names[i]) for one, i in zip(told, numbers, strict=True)]
