"""Images in, their stories out: why each was accepted or rejected."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from typica.data import open_images
from typica.decide import explain, origin_of
from typica.detectors import final_detector, reads_layers
from typica.errors import about, border
from typica.explanation import Explanation
from typica.nets._judging import features_of
from typica.nets._left_out import say_left_out, say_skipped
from typica.nets._reopen import reopen
from typica.nets._settings import Settings
from typica.progress import work


@border
def explain_images(
    estimator: Any,
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
    say_left_out(found)
    with about(type(final_detector(estimator)).__name__):
        opened, known = reopen(
            origin_of(estimator),
            model=model,
            weights=weights,
            trust=trust,
            layers=reads_layers(estimator),
            transform=transform,
            images=found,
        )
    with work("looking", len(found), unit="images/s"):
        seen = features_of(opened, found, known, estimator, settings)
    say_skipped(seen.skipped)
    told = explain(estimator, seen.rows, bank, **options)
    numbers = seen.indices.tolist()
    return [replace(one, file=found.names[i]) for one, i in zip(told, numbers, strict=True)]
