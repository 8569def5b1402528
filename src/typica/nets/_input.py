"""What a detector, or a Pipeline that ends in one, reads of a model: its features or its logits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sklearn.pipeline import Pipeline

from typica.detectors import final_detector
from typica.errors import InputError
from typica.nets._result import Extraction

if TYPE_CHECKING:
    from typica.nets.extractors.torch import FeatureExtractor


def as_extractor(model: Any) -> FeatureExtractor:
    """Return a FeatureExtractor as it is, or one over a model."""
    from typica.nets.extractors.torch import FeatureExtractor  # noqa: PLC0415 (needs torch; what reads ONNX models does not)

    return model if isinstance(model, FeatureExtractor) else FeatureExtractor(model)


def steps(estimator: Any, where: str) -> list[Any]:
    """Return a Pipeline's steps, the last a detector, or a detector alone in a list."""
    final_detector(estimator)
    if not isinstance(estimator, Pipeline):
        return [estimator]
    return [step for _, step in estimator.steps if step not in (None, "passthrough")]


def reads_logits(estimator: Any, where: str) -> bool:
    """Tell whether the input is logits: so it is for a method of logits without a head; a Pipeline reads features."""
    detector = final_detector(estimator)
    alone = detector is estimator
    return alone and detector.tags.reads == "logits" and getattr(detector, "head", None) is None


def chosen(extraction: Extraction, logits: bool, where: str) -> Any:
    """Return the logits or the features of a batch."""
    if logits and extraction.logits is None:
        raise InputError(f"{where}: the model gives no logits; pass a detector of features.")
    return extraction.logits if logits else extraction.features
