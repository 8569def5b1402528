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

    bank: known inputs, of which each explanation names the nearest. The other options are those of
    `typica.explain`; model, weights, transform, trust and settings are those of `judge_images`.
    """
    found = open_images(images)
    network = {"model": model, "weights": weights, "transform": transform, "trust": trust}
    seen = InputReader.of(estimator, **network, settings=settings).see(found)
    told = explain(estimator, seen.rows, bank, **options)
    numbers = seen.indices.tolist()
    return [replace(one, file=found.names[i]) for one, i in zip(told, numbers, strict=True)]
