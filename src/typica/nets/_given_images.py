"""Images as methods over a network take them: finite, and floats where a step is to be made."""

from __future__ import annotations

from typing import Any

from typica.errors import InputError
from typica.nets._torch import Tensor, torch
from typica.nets.extractors.torch import FeatureExtractor


def finite(extractor: FeatureExtractor, images: Any) -> Tensor:
    """Return a batch as the model takes it, refusing NaN and infinity.

    >>> extractor = FeatureExtractor(torch.nn.Linear(2, 2))
    >>> finite(extractor, torch.tensor([[1.0, 2.0], [torch.nan, 2.0]]))
    Traceback (most recent call last):
    typica.errors.InputError: image 1 holds NaN or infinity; remove or fix it.
    """
    prepared = extractor.prepared(images)
    if not torch.isfinite(prepared).all():
        sound = torch.isfinite(prepared.flatten(1)).all(dim=1)
        first = int(sound.int().argmin())
        raise InputError(f"image {first} holds NaN or infinity; remove or fix it.")
    return prepared


def in_batches(images: Tensor, batch_size: int) -> tuple[Tensor, ...]:
    """Return images in batches of this size, which may be one of NumPy's integers."""
    parts: tuple[Tensor, ...] = torch.split(images, int(batch_size))
    return parts


def floating(extractor: FeatureExtractor, images: Any) -> Tensor:
    """Return a batch as the model takes it, refusing whole numbers too."""
    prepared = finite(extractor, images)
    if not prepared.is_floating_point():
        kind = str(prepared.dtype).removeprefix("torch.")
        raise InputError(
            f"images of type {kind}, in which no step can be made; preprocess them as the "
            "network takes them, zoo.transform(NAME), or pass floats."
        )
    return prepared
