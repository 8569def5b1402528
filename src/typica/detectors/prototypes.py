"""Prototypes: how well a row of one tower matches what the other tower makes of the classes.

    MCM        score(z) = max_k softmax(c / T)_k,   c_k = cos(z, p_k),   T = 1
    NegLabel   score(z) = mean_g P / (P + N_g),   T = 0.01
               P = sum_k exp(cos(z, p_k) / T),   N_g = sum_{j in part g} exp(cos(z, n_j) / T)

with prototypes p_k of the classes and, for NegLabel, n_j of what is none of them: embeddings of
names by the text encoder, say, where the rows are embeddings of images; or sentences on both sides.
Ming, Cai, Gu, Sun, Li, Li: Delving into Out-of-Distribution Detection with Vision-Language
Representations, NeurIPS 2022. Jiang, Liu, Fang, Chen, Liu, Zheng, Han: Negative Label Guided OOD
Detection with Pretrained Vision-Language Models, ICLR 2024 (whose parts are drawn at random, and
whose last words are left out where the parts would differ in size). Higher = more typical, as
printed. Score: one product with the prototypes.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Self

import numpy as np

from typica.arrays import (
    AnyArray,
    Array,
    Labels,
    Rows,
    as_features,
    as_floating,
    check_finite,
    namespace,
    to_numpy,
)
from typica.checks import count, matrix, names, optional, positive
from typica.cosines import cosines
from typica.detectors._bases.cosine import DirectedDetector
from typica.detectors._bases.means import LearnsClassMeans, mean_directions
from typica.detectors.msp import max_softmax
from typica.errors import InputError, about
from typica.linalg import Floats, logsumexp, unit_rows
from typica.store import State, storable
from typica.tags import Tags

A_PART = 100  # negative prototypes: the authors deal 10,000 into 100 parts
MCM_TEMPERATURE = 1.0
NEGLABEL_TEMPERATURE = 0.01


def positive_share(P: Array, N: Array) -> Array:
    """Return the score by prototypes: mean_g sum_k exp(P_k) / (sum_k exp(P_k) + sum_j exp(N_jg)).

    P (n, C); N (n, s, parts), -inf where a part has fewer than s.

    >>> P, N = np.log([[1.0, 2.0]]), np.log([[[1.0, 9.0]]])
    >>> positive_share(P, N)
    array([0.5])
    """
    xp = namespace(P)
    known, strange = logsumexp(P)[:, None], logsumexp(N)
    larger = xp.maximum(known, strange)  # so that nothing overflows
    ours = xp.exp(known - larger)
    return xp.mean(ours / (ours + xp.exp(strange - larger)), axis=1)


class Negatives(NamedTuple):
    """Negative prototypes, dealt into parts: number j is in part j modulo their number.

    directions (s * parts, m): of length 1, the last ones repeated so that parts are of one size;
    absent (s * parts,): 0 for a prototype and -inf for such a repetition.
    """

    directions: Floats
    absent: Floats

    @classmethod
    def dealt(cls, directions: Floats, parts: int) -> Self:
        """Deal directions (M, m) into parts."""
        M = len(directions)
        size = math.ceil(M / parts)
        places = np.minimum(np.arange(size * parts), M - 1)
        absent = np.where(np.arange(size * parts) < M, 0.0, -np.inf)
        return cls(directions[places], absent)


@storable("prototypes")
class Prototypes(LearnsClassMeans, DirectedDetector):
    """Match with prototypes of the classes: MCM, or NegLabel where there are negative ones.

    A row of zeros has no direction: it scores 0, the least there is.

    Parameters
    ----------
    positive
        Prototypes (C, m), one per class; no `fit` is needed then. None takes the mean of each class
        of the training rows.
    negative
        Prototypes (M, m) of what belongs to no class.
    classes
        The names of the rows of `positive`, 0 ... C-1 if None.
    temperature
        None is 1 without negative prototypes and 0.01 with them, as the authors have it.
    parts
        Into how many parts the negative prototypes are dealt, in turn; None is one for each
        hundred.

    >>> texts = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    >>> images = np.array([[0.9, 0.1, 0.1], [0.1, 0.2, 0.9]])
    >>> detector = Prototypes(texts, classes=["cat", "dog"])
    >>> detector.score_samples(images).round(3), detector.classify(images).tolist()
    (array([0.706, 0.527]), ['cat', 'dog'])
    >>> Prototypes(texts, negative=[[0.0, 0.0, 1.0]]).score_samples(images).round(3)
    array([1., 0.])
    """

    tags = Tags(
        uses_labels=True,
        mergeable=True,
        tolerance=(2e-5, 1e-12),  # of cosines that are divided by a hundredth
        fit_cost="O(N m); none with prototypes",
        score_cost="O(m (C + M)), M negative prototypes",
        memory="O(m (C + M))",
        reference="Ming et al. 2022, NeurIPS (MCM); Jiang et al. 2024, ICLR (NegLabel)",
    )
    params = {
        "positive": matrix("prototype"),
        "negative": matrix("prototype"),
        "classes": names(),
        "temperature": optional(positive()),
        "parts": optional(count()),
    }
    _negatives: Negatives

    def __init__(
        self,
        positive: Any = None,
        negative: Any = None,
        *,
        classes: Any = None,
        temperature: float | None = None,
        parts: int | None = None,
    ) -> None:
        self.positive = positive
        self.negative = negative
        self.classes = classes
        self.temperature = temperature
        self.parts = parts

    # What is learnt: nothing, where the prototypes are given

    def _learn(self, Z: Rows, labels: Labels | None) -> None:
        if self.positive is None:
            super()._learn(Z, labels)

    def _absorb(self, other: Self) -> None:
        if self.positive is None:
            super()._absorb(other)

    def _check_fitted(self) -> None:
        if self.positive is None:
            super()._check_fitted()
        else:
            self._check_parameters()

    def __sklearn_is_fitted__(self) -> bool:
        return self.positive is not None or bool(super().__sklearn_is_fitted__())

    @property
    def n_features(self) -> int | None:
        """The number of features that a row must have: that of the prototypes."""
        return self._width() or super().n_features

    def _width_to_expect(self, reset: bool) -> int | None:
        return self._width() or super()._width_to_expect(reset)

    def _width(self) -> int | None:
        """Return how many features the prototypes have, where there are any."""
        given = self.negative if self.positive is None else self.positive
        return None if given is None else int(np.shape(given)[1])

    @property
    def classes_(self) -> Labels:
        """The names of the prototypes; of class means, the labels of the training data."""
        if self.positive is None:
            return super().classes_
        return np.arange(len(self.positive)) if self.classes is None else np.array(self.classes)

    # What it is made of

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.classes is not None and self.positive is None:
            raise InputError(
                "classes name the rows of positive, which is None; pass both, or neither."
            )
        if self.classes is not None and len(self.classes) != len(self.positive):
            raise InputError(
                f"{len(self.classes)} names for {len(self.positive)} prototypes; pass one per row."
            )

    def _derive(self) -> None:
        if self.positive is None:
            self._directions = mean_directions(self.moments_)
        else:
            self._directions = _directions("positive", self.positive)
        if self.negative is not None:
            width = int(self._directions.shape[1])
            strange = _directions("negative", self.negative, width)
            self._negatives = Negatives.dealt(strange, min(self._n_parts(), len(strange)))
        elif len(self._directions) == 1:
            raise InputError(
                "one class, and no negative prototypes: every row would score 1; pass labels or "
                "prototypes of two classes or more, or negative prototypes."
            )

    def _n_parts(self) -> int:
        if self.parts is not None:
            return int(self.parts)
        return max(round(len(self.negative) / A_PART), 1)

    # Scores

    def _score(self, Z: Array) -> Array:
        return self._score_and_similarities(Z)[0]

    def _score_and_similarities(self, Z: Array) -> tuple[Array, Array]:
        xp = namespace(Z)
        similarities = self._similarities(Z)
        scores = self._matched(Z, similarities)
        zero = xp.max(xp.abs(Z), axis=1) == 0
        return xp.where(zero, xp.zeros_like(scores), scores), similarities

    def _matched(self, Z: Array, similarities: Array) -> Array:
        if self.negative is None:
            return max_softmax(similarities, self.temperature or MCM_TEMPERATURE)
        xp = namespace(Z)
        temperature = float(self.temperature or NEGLABEL_TEMPERATURE)
        negatives: Negatives = self._like("_negatives", Z)
        strange = cosines(Z, negatives.directions) / temperature + negatives.absent
        parts = min(self._n_parts(), len(self.negative))
        size = int(negatives.absent.shape[0]) // parts
        return positive_share(similarities / temperature, xp.reshape(strange, (-1, size, parts)))

    def _score_width(self) -> int:
        strange = 0 if self.negative is None else len(self._negatives.absent)
        return len(self._directions) + strange

    def _note(self, z: AnyArray) -> str:
        if not z.any():
            return "the feature vector is zero and has no direction, so it scores 0"
        if self.negative is None:
            return ""
        strange = cosines(z[None], _directions("negative", self.negative).astype(z.dtype))[0]
        nearest = int(np.argmax(strange))
        return f"nearest negative prototype {nearest} ({strange[nearest]:.4g})"

    def state(self) -> State:
        """Return parameters and fitted attributes, to be stored; prototypes as arrays."""
        stored = super().state()
        for name in ("positive", "negative"):
            if stored["params"][name] is not None:
                stored["params"][name] = to_numpy(stored["params"][name])
        if self.classes is not None:
            stored["params"]["classes"] = self.classes_.tolist()
        return stored


def _directions(name: str, prototypes: Any, width: int | None = None) -> Floats:
    """Return prototypes scaled to length 1; raise where one has no direction."""
    with about(name):
        rows = as_floating(to_numpy(as_features(prototypes)))
        if width is not None and rows.shape[1] != width:
            raise InputError(
                f"{rows.shape[1]} features, and the others have {width}; pass embeddings of one "
                "space."
            )
        check_finite(rows)
        if not rows.any(axis=1).all():
            row = int(np.argmin(rows.any(axis=1)))
            raise InputError(f"row {row} is zero and has no direction; leave it out.")
    directions: Floats = unit_rows(rows.astype(np.float64))
    return directions
