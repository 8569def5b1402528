"""What the methods that read nothing but logits share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from typica.arrays import (
    Array,
    Labels,
    Rows,
    as_features,
    as_floating,
    check_finite,
    row_blocks,
    to_numpy,
)
from typica.checks import positive
from typica.detectors._banks import is_bank
from typica.detectors.base import Detector
from typica.errors import InputError, LogitsWarning, border, warn
from typica.estimator import Estimator
from typica.head import HEAD, Head, head_to_pass


class Tempered(Estimator):
    """An estimator with the parameters `head` and `temperature`."""

    params = {"head": HEAD, "temperature": positive()}

    def __init__(self, head: Head | None = None, temperature: float = 1.0) -> None:
        self.head = head
        self.temperature = temperature


class LogitDetector(Detector):
    """A detector of logits: its input is features if it has a head, else the logits themselves.

    Subclasses write `_score_logits`. Most learn nothing and are ready without `fit`.
    """

    head: Head | None

    @border
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from training features X or, without a head, logits; see `Detector.fit`.

        Without a head, labels must have as many classes as X has columns: if not, X is most likely
        features and is refused. A method that is defined by labels, which may lack classes, only
        warns.
        """
        if self.head is None and not is_bank(X):
            self._check_logits(X, y)
        return super().fit(X, y)

    def _check_logits(self, X: Any, y: Any) -> None:
        """Refuse rows that cannot be logits of the labels' classes; warn where this is unknown."""
        width = as_features(X).shape[1]
        if y is None:
            self._warn_of_logits(width)
            return
        classes = len(set(to_numpy(y).ravel().tolist()))
        if classes == width:
            return
        if self.tags.uses_labels:
            warn(
                f"{type(self).__name__}.fit: no head, and labels of {classes} classes; X is taken "
                f"as logits of {width} classes. Pass {head_to_pass()} if these are features.",
                LogitsWarning,
            )
            return
        raise InputError(
            f"labels of {classes} classes and {width} columns, which would be taken as logits "
            f"of {width} classes; for features pass {head_to_pass()}, for logits "
            "leave out the labels."
        )

    def _warn_of_logits(self, width: int) -> None:
        if self.tags.needs_fit:  # one that learns from logits is often given them without labels
            return
        warn(
            f"{type(self).__name__}.fit: no head and no labels; X is taken as logits of {width} "
            f"classes. Pass {head_to_pass()} if these are features.",
            LogitsWarning,
        )

    def _logits(self, Z: Array) -> Array:
        return Z if self.head is None else self.head.logits(Z)

    def _logit_blocks(self, Z: Rows) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Yield which rows of the training data a block holds, and their logits, checked."""
        width = max(self._score_width(), Z.shape[1])
        for block in row_blocks(len(Z), width, itemsize=8):
            rows = as_floating(Z[block])
            check_finite(rows, block.start)
            yield block, self._logits(rows).astype(np.float64, copy=False)

    def _score(self, Z: Array) -> Array:
        return self._score_logits(self._logits(Z))

    def _score_logits(self, L: Array) -> Array:
        """Score one block of logits (n, C)."""
        raise InputError("this detector has no score.")

    def _match_logits(self, L: Array) -> Array:
        """Return the similarities (n, C) to the classes of one block of logits: the logits."""
        return L

    def _similarities(self, Z: Array) -> Array:
        return self._match_logits(self._logits(Z))

    def _score_and_similarities(self, Z: Array) -> tuple[Array, Array]:
        L = self._logits(Z)
        return self._score_logits(L), self._match_logits(L)

    def _score_width(self) -> int:
        return 1 if self.head is None else len(self.head.classes)

    def _check(self, X: Any, reset: bool = False) -> Array:
        Z = super()._check(X, reset)
        if not self._has_learnt():
            # Tells how many classes there are if nothing is learnt from bare logits.
            self._width = int(Z.shape[1])
        return Z

    @property
    def classes_(self) -> Labels:
        """The classes of the head; of bare logits, their positions."""
        if self.head is not None:
            return self.head.classes
        width = getattr(self, "n_features_in_", getattr(self, "_width", None))
        if width is None:
            raise AttributeError(f"{type(self).__name__} knows its classes once it has seen logits")
        return np.arange(width)
