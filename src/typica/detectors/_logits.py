"""What the methods that read nothing but logits share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica.arrays import Array
from typica.detectors.base import Detector
from typica.errors import InputError
from typica.head import Head


class LogitDetector(Detector):
    """A detector of logits: with a head its input is features, with head=None its input is the logits themselves.

    Subclasses write `_score_logits`. Most learn nothing and are ready without `fit`.
    """

    head: Head | None

    def _logits(self, Z: Array) -> Array:
        return Z if self.head is None else self.head.logits(Z)

    def _score(self, Z: Array) -> Array:
        return self._score_logits(self._logits(Z))

    def _score_logits(self, L: Array) -> Array:
        """Score one block of logits (n, C)."""
        raise InputError(f"{type(self).__name__}: this detector has no score.")

    def _similarities(self, Z: Array) -> Array:
        return self._logits(Z)

    def _score_width(self) -> int:
        return 1 if self.head is None else len(self.head.classes)

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes of the head; of bare logits, their positions."""
        if self.head is not None:
            return self.head.classes
        if not hasattr(self, "n_features_in_"):
            raise AttributeError(f"{type(self).__name__} knows its classes once it has seen logits")
        return np.arange(self.n_features_in_)
