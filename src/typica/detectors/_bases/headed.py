"""What the methods that read features and a head together share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from typica.arrays import Array, Labels, Rows, like, map_rows
from typica.detectors.base import Detector
from typica.errors import InputError, counted
from typica.estimator import Estimator, LearnsMoments
from typica.head import Head, check_same_kind, head_to_pass
from typica.moments import Moments


class NoHeadError(InputError, AttributeError):
    """The error of a headed detector that is used without a head.

    An AttributeError too, by which `hasattr` and `dir` know that there is none.
    """


def check_classes(moments: Moments, head: Head, what: str = "samples") -> NDArray[np.int64]:
    """Return where a detector's moments have each class of its head; raise if one is absent."""
    check_same_kind(moments.classes, head)
    absent = np.setdiff1d(head.classes, moments.classes)
    if len(absent):
        raise InputError(
            f"class {absent[0]!s} of the head has no {what}; "
            "add some, or leave the class out of the head."
        )
    return np.searchsorted(moments.classes, head.classes)


def correctly_classified(Z: Rows, labels: Labels, head: Head) -> NDArray[np.bool_]:
    """Tell which of the checked training rows Z (n, m) a detector's head classifies correctly.

    labels (n,): what they are.
    """
    if labels.shape != (len(Z),):
        rows = counted(len(Z), "row")
        raise InputError(f"{counted(len(labels), 'label')} for {rows}; pass one label per row.")
    check_same_kind(labels, head)
    predicted = map_rows(lambda rows: np.argmax(head.logits(rows), axis=1), Z, len(head.classes))
    return np.asarray(head.classes[predicted] == labels)


class ClassesOfHead(Estimator):
    """A detector whose classes are those of its head."""

    head: Head | None

    @property
    def _head(self) -> Head:
        if self.head is None:
            raise NoHeadError(f"no head; pass {head_to_pass()}.")
        return self.head

    @property
    def classes_(self) -> Labels:
        """The classes of the head."""
        if self.head is None:
            raise AttributeError(f"{type(self).__name__} has no classes without a head")
        return self.head.classes


class HeadedDetector(ClassesOfHead, Detector):
    """A detector of features and what the head makes of them; logits match a row with classes.

    Subclasses write `_score_with_logits`, so that scores and matches share one product.
    """

    def _score_with_logits(self, Z: Array, L: Array) -> Array:
        """Score one block of rows, given their logits (n, C)."""
        raise InputError("this detector has no score.")

    def _score(self, Z: Array) -> Array:
        return self._score_with_logits(Z, self._head.logits(Z))

    def _similarities(self, Z: Array) -> Array:
        return self._head.logits(Z)

    def _score_and_similarities(self, Z: Array) -> tuple[Array, Array]:
        L = self._head.logits(Z)
        return self._score_with_logits(Z, L), L

    def _score_width(self) -> int:
        return len(self._head.classes)


class MomentsDetector(LearnsMoments, HeadedDetector):
    """One that learns moments of the features, so that it streams and merges."""

    def _from_mean(self, Z: Array) -> Array:
        """Return the rows of Z minus the mean of all training rows, learnt without labels."""
        return Z - like(self.moments_.means[0], Z)
