"""What a detector, or a Pipeline that ends in one, reads of a model: its features or its logits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from typica.errors import InputError
from typica.nets._extracted_batch import Extraction

if TYPE_CHECKING:
    from typica.nets.extractors.torch import FeatureExtractor


def as_extractor(model: Any) -> FeatureExtractor:
    """Return a FeatureExtractor as it is, or one over a model."""
    # Needs torch, which what reads ONNX models does not.
    from typica.nets.extractors.torch import FeatureExtractor  # noqa: PLC0415

    return model if isinstance(model, FeatureExtractor) else FeatureExtractor(model)


def chosen(extraction: Extraction, logits: bool, layers: list[str] | None = None) -> Any:
    """Return the logits or the features of a batch, or those of several layers side by side."""
    if layers is not None:
        return np.concatenate([extraction.layers[name] for name in layers], axis=1)
    if logits and extraction.logits is None:
        raise InputError("the model gives no logits; pass a detector of features.")
    return extraction.logits if logits else extraction.features
