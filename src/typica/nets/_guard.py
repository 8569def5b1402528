"""A classifier that says when it does not know: logits, score and verdict in one forward pass."""
# mypy: allow-subclassing-any

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from typica.arrays import is_traced
from typica.cosines import cosines, max_cosine
from typica.detectors import (
    CosineDetector,
    Detector,
    detector_input,
    final_detector,
    reads_logits,
)
from typica.errors import InputError, border, reason_of
from typica.largest import row_max
from typica.nets._extracted_batch import Extraction, batch_of
from typica.nets._torch import Tensor, nn, torch
from typica.nets.extractors.torch import FeatureExtractor, as_extractor


@dataclass(frozen=True, eq=False)
class Guarded:
    """What a guarded model gives: logits (n, C), scores (n,), and which are typical (n,).

    p_value (n,): conformal, as `detector.p_values` gives them; None without a calibration, and with
    one by class. It unpacks as `logits, score, typical`.
    """

    logits: Tensor
    score: Tensor
    typical: Tensor
    p_value: Tensor | None = None

    def __iter__(self) -> Iterator[Any]:
        return iter((self.logits, self.score, self.typical))


# So that an exported guard gives one too, and can be saved.
torch.export.register_dataclass(Guarded, serialized_type_name="typica.nets.Guarded")


class Guard(nn.Module):
    """A model with its detector: `forward` gives logits, score, p-value, and which are typical.

    The model is put in eval mode. As in `detector.judge`, a row is typical where its score is at
    least the threshold that the detector has when the guard is made; the threshold of the nearest
    class, where it was calibrated by class.

    CTM and CW are copied into buffers, so that a guard with one of them moves between devices whole
    and is saved with `state_dict`. Other detectors are called as they are. A row that is not finite
    is atypical with every detector. `torch.export` takes a guard with any detector that is array
    code (all but LOF and the isolation forest, which are scikit-learn's); what it exports gives a
    Guarded, and `torch.export.save` keeps it. To load it, import `typica.nets` first.

    Parameters
    ----------
    model
        An `nn.Module`, or a FeatureExtractor where the features are not the head's input.
    detector
        A calibrated detector of features or logits, or a Pipeline that ends in one.

    >>> import numpy as np, typica
    >>> model = nn.Linear(2, 2)
    >>> detector = typica.CTM().fit(np.array([[2.0, 0.1], [0.1, 3.0]] * 10), [0, 1] * 10)
    >>> guard = Guard(model, detector)
    >>> guard(torch.tensor([[4.0, 0.2], [-1.0, -1.0]])).typical
    tensor([ True, False])
    """

    @border
    def __init__(self, model: FeatureExtractor | Any, detector: Any) -> None:
        super().__init__()
        final = final_detector(detector)
        if not final.has_threshold:
            raise InputError(
                f"{type(final).__name__} has no threshold yet; "
                "call its calibrate with held-out inputs."
            )
        calibration = final.current_calibration()
        self._by_class = calibration is not None and calibration.by_class
        self.extractor = as_extractor(model)
        self.model = self.extractor.model
        self.detector = detector
        self._logits = reads_logits(detector)
        weight = next((p for p in self.model.parameters() if p.is_floating_point()), torch.empty(0))
        # Double only for a model in double: some devices lack it.
        dtype = torch.float64 if weight.dtype == torch.float64 else torch.float32
        buffers = {
            "threshold": torch.tensor(_thresholds(final), dtype=torch.float64),
            "directions": _directions(detector),
            "known_scores": _known_scores(final),
        }
        for name, value in buffers.items():
            self.register_buffer(name, None if value is None else value.to(weight.device, dtype))
        self.eval()

    @border
    def forward(self, images: Any = None, **named: Any) -> Guarded:
        """Return the verdicts on one batch, given as the model takes it, also by keywords."""
        return self.judge(self.extractor.run(batch_of(images, named)))

    @border
    def judge(self, extraction: Extraction) -> Guarded:
        """Return the verdict on what the model has given: all that the guard adds to its pass."""
        score, threshold = self._assessed(extraction.read(self._logits))
        return Guarded(extraction.logits, score, score >= threshold, self._p_value(score))

    def _p_value(self, score: Tensor) -> Tensor | None:
        """Return (1 + #{<= score}) / (n + 1) among the n calibration scores; the least for NaN."""
        if self.known_scores is None:
            return None
        known = self.known_scores.to(score.dtype)
        at_most = torch.searchsorted(known, score.detach(), right=True)
        at_most = torch.where(score.isnan(), 0, at_most)  # a search puts NaN above all numbers
        return (at_most + 1).to(score.dtype) / (len(known) + 1)

    def _assessed(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the scores and the threshold: one, or that of each row's nearest class."""
        if not self._by_class:
            return self._score(rows), self.threshold
        if self.directions is None:
            scores, nearest = self._called(rows, self._matched)
            return scores, self.threshold[nearest]
        rows = self._fitting(rows)
        found = cosines(rows, self.directions.to(rows.dtype))
        return row_max(found), self.threshold[found.argmax(1)]

    def _matched(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the scores of a detector that is not copied, and its nearest classes' numbers."""
        final = final_detector(self.detector)
        scores, matches = final.score_and_match(detector_input(self.detector, rows))
        assert matches is not None  # as it has classes
        return scores, torch.as_tensor(matches.nearest, device=scores.device)

    def _score(self, rows: Tensor) -> Tensor:
        if self.directions is None:
            return self._called(rows, lambda rows: (self.detector.score_samples(rows), None))[0]
        rows = self._fitting(rows)
        return max_cosine(rows, self.directions.to(rows.dtype))

    def _fitting(self, rows: Tensor) -> Tensor:
        """Return rows in single or double precision, as wide as the directions."""
        rows = rows if rows.dtype == torch.float64 else rows.float()
        if rows.shape[1] != self.directions.shape[1]:
            raise InputError(
                f"the detector is expecting {self.directions.shape[1]} features, the model "
                f"gives {rows.shape[1]}; fit it on features of this model and layer."
            )
        return rows

    def _called(
        self, rows: Tensor, says: Callable[[Tensor], tuple[Tensor, Any]]
    ) -> tuple[Tensor, Any]:
        """Call a detector that is not copied, whose score of a row that is not finite is NaN.

        Say so if torch.export cannot trace it.
        """
        sound = torch.isfinite(rows).all(1)
        if not is_traced(rows):
            if sound.all():
                return says(rows)
            scores, more = says(torch.where(sound[:, None], rows, 0))
            return torch.where(sound, scores, torch.nan), more
        try:
            scores, more = says(rows)
        except Exception as error:  # of every kind: scikit-learn, NumPy and torch have their own
            name = type(final_detector(self.detector)).__name__
            raise InputError(
                f"{name} cannot be traced by torch.export ({reason_of(error)}); guard the "
                "model with another detector, or export this one with typica.export.to_onnx."
            ) from error
        # A row that would be refused here is not typical there.
        sound &= scores < torch.inf
        return torch.where(sound, scores, torch.nan), more

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Guard:
        """Move or convert the guard; with a model in half precision its buffers stay in single."""
        buffers = dict(self._buffers)
        super()._apply(fn, recurse)
        for name, buffer in buffers.items():
            if buffer is not None and self._buffers[name].dtype in (torch.float16, torch.bfloat16):
                self._buffers[name] = buffer.to(self._buffers[name].device)
        return self

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Load as many calibration scores as are stored, or none: those here are not its own."""
        stored = state_dict.get(f"{prefix}known_scores")
        self.known_scores = None if stored is None else self.threshold.new_empty(stored.shape)
        super()._load_from_state_dict(state_dict, prefix, *rest)


def _known_scores(final: Detector) -> Any:
    """Return the calibration scores that a guard keeps, in ascending order; None without any."""
    calibration = final.current_calibration()
    if calibration is None or calibration.by_class:
        return None
    return torch.tensor(calibration.scores)


def _thresholds(final: Detector) -> Any:
    """Return the guard's threshold, or that of each class, in the order of `classes_`."""
    calibration = final.current_calibration()
    if calibration is None or not calibration.by_class:
        return final.offset_
    classes = getattr(final, "classes_", None)
    if classes is None:
        raise InputError(
            f"{type(final).__name__} is calibrated by class, but finds no nearest class; "
            "calibrate it without by_class."
        )
    return calibration.offsets(np.zeros(len(classes)), classes)


def _directions(detector: Any) -> Any:
    """Return the unit directions of CTM or CW as a tensor, or None for another detector."""
    if not isinstance(detector, CosineDetector):
        return None
    if type(detector)._score is not CosineDetector._score:
        return None
    detector._check_fitted()
    detector._prepare()
    return torch.tensor(detector._directions)
