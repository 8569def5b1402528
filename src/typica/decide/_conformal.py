"""A decision on one input with a guarantee: conformal p-values.

    p(x) = (1 + #{calibration scores <= score(x)}) / (n + 1)

If x comes from where the n calibration inputs come from (all n + 1 exchangeable), P(p(x) <= alpha)
<= alpha, whatever the network and the detector: reject where p <= alpha. The probability is over
the calibration draw as well as over x. Vovk, Gammerman, Shafer: Algorithmic Learning in a Random
World, 2005; Laxhammar, Falkman: Inductive Conformal Anomaly Detection, 2015. docs/guarantees.md
says what is guaranteed, and when it is not.
"""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from typica import store
from typica.arrays import as_features, as_floating, to_numpy
from typica.binomial import guaranteed_rank
from typica.decide._estimators import explain
from typica.detectors import detector_input, final_detector
from typica.errors import InputError, border
from typica.estimator import NotFittedError
from typica.exact import json_number
from typica.explanation import Explanation
from typica.fdr import benjamini_hochberg, check_share, storey
from typica.groups import Classes, GroupedScores, pool_rare
from typica.linalg import cosines, unit_rows
from typica.moments import Moments
from typica.sketch import ScoreSet, check_scores
from typica.store import storable

EXAMPLES = 3  # known inputs that `explain` names


class Judgement(NamedTuple):
    """Per input: its score, p-value, and whether it is typical."""

    scores: NDArray[Any]
    p_values: NDArray[np.float64]
    typical: NDArray[np.bool_]


@storable("conformal_detector")
class ConformalDetector:
    """A fitted detector, or a fitted Pipeline that ends in one, with calibration scores to compare with.

    by_class: compare an input only with calibration inputs of the same predicted class (Mondrian),
    so that the guarantee holds within each predicted class. groups: {class: group} joins classes;
    others stand alone. None: `calibrate` joins the classes that are rare in training, where the
    detector knows (see `pool_rare`). max_scores: keep a sketch of that many numbers a group in
    place of all scores; p-values then are at most error / (n + 1) too large, never too small.
    alpha, confidence: what `predict` and `judge` go by unless told otherwise. Do not refit the
    detector after calibration.

    >>> import typica
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(300) % 3
    >>> X = rng.random((300, 8)) + 4 * np.eye(3, 8)[y]
    >>> detector = ConformalDetector(typica.CTM().fit(X[:100], y[:100])).calibrate(X[100:299])
    >>> detector.p_values(np.vstack([X[299], -X[299]]))
    array([0.255, 0.005])
    >>> detector.predict(np.vstack([X[299], -X[299]]), alpha=0.05)
    array([ 1, -1])
    """

    @border
    def __init__(
        self,
        detector: Any,
        *,
        by_class: bool = False,
        groups: Mapping[Any, str] | None = None,
        max_scores: int | None = None,
        alpha: Any = 0.05,
        confidence: Any = None,
    ) -> None:
        final_detector(detector)
        check_share(alpha, "alpha", zero=True)
        if confidence is not None:
            check_share(confidence, "confidence")
        if groups is not None and not by_class:
            raise InputError("groups without by_class; pass by_class=True as well.")
        ScoreSet(max_scores)  # says what is wrong with it
        self.detector = detector
        self.by_class = by_class
        self.groups = groups
        self.max_scores = max_scores
        self.alpha = alpha
        self.confidence = confidence
        self._known: GroupedScores | None = None

    @border
    def calibrate(self, X: Any, predicted: Any = None) -> Self:
        """Take the scores of held-out in-distribution inputs as those to compare with, in place of earlier ones.

        predicted: the class that the classifier predicts for each row, where that is not
        `detector.classify(X)`.
        """
        scores, classes = self.scored(X, predicted)
        groups = self.groups
        moments = getattr(final_detector(self.detector), "moments_", None)
        if groups is None and self.by_class and isinstance(moments, Moments):
            groups = pool_rare(moments.classes, moments.counts, len(scores))
        self._known = GroupedScores(groups, self.max_scores)
        self._known.add(scores, classes)
        return self

    @border
    def partial_calibrate(self, X: Any, predicted: Any = None) -> Self:
        """Take in one more batch. The length of a stream is not known: only `groups` says which classes are joined."""
        scores, classes = self.scored(X, predicted)
        if self._known is None:
            self._known = GroupedScores(self.groups, self.max_scores)
        self._known.add(scores, classes)
        return self

    @border
    def merge(self, other: ConformalDetector) -> Self:
        """Take in the calibration scores of `other`, made with an equal detector; `other` stays as it is."""
        if not isinstance(other, ConformalDetector) or other is self:
            raise InputError(
                f"got {type(other).__name__} or itself; pass another ConformalDetector."
            )
        theirs = other.calibration
        ours = (
            GroupedScores(theirs.taxonomy, self.max_scores) if self._known is None else self._known
        )
        if (self.by_class, self.max_scores, ours.taxonomy) != (
            other.by_class,
            other.max_scores,
            theirs.taxonomy,
        ):
            raise InputError("by_class, groups or max_scores differ; make both with the same.")
        if self.detector is not other.detector and fingerprint(self.detector) != fingerprint(
            other.detector
        ):
            raise InputError(
                "the two detectors are not equal; calibrate copies of one fitted detector."
            )
        ours.merge(theirs)
        self._known = ours
        return self

    @property
    def calibration(self) -> GroupedScores:
        """The calibration scores by group."""
        if self._known is None:
            raise NotFittedError("there are no calibration scores; call calibrate first.")
        return self._known

    @property
    def n(self) -> int:
        """The number of calibration inputs."""
        return self.calibration.n

    @border
    def p_values(
        self, X: Any, randomised: bool = False, seed: Any = None, predicted: Any = None
    ) -> NDArray[np.float64]:
        """Return the p-value of each row: how typical it is, 1 / (n + 1) at the least.

        randomised: (#{<} + U (1 + #{=})) / (n + 1) with U uniform from `seed`, so that P(p <=
        alpha) = alpha exactly, ties or not.
        """
        calibration = self.calibration
        rng = np.random.default_rng(seed) if randomised else None
        return calibration.p_values(*self.scored(X, predicted), rng)

    @border
    def predict(
        self, X: Any, alpha: Any = None, confidence: Any = None, predicted: Any = None
    ) -> NDArray[np.int64]:
        """Return +1 where p > alpha and -1 where not: row for row what `detector.calibrate(tpr=1 - alpha)` decides.

        confidence: with that probability over the calibration draw, the false-alarm rate of this
        very detector is at most alpha. With `by_class` both hold within each group. alpha=None: the
        constructor's alpha and confidence.
        """
        alpha, confidence = self._levels(alpha, confidence)
        limits = self.calibration.limits(alpha, confidence)
        return np.where(
            self.calibration.typical(*self.scored(X, predicted), limits),
            1,
            -1,
        )

    @border
    def judge(
        self, X: Any, alpha: Any = None, confidence: Any = None, predicted: Any = None
    ) -> Judgement:
        """Return score, p-value and verdict of each row in one pass; see `predict`."""
        alpha, confidence = self._levels(alpha, confidence)
        limits = self.calibration.limits(alpha, confidence)
        scores, classes = self.scored(X, predicted)
        p = self.calibration.p_values(scores, classes)
        return Judgement(scores, p, self.calibration.typical(scores, classes, limits))

    @border
    def explain(
        self,
        X: Any,
        alpha: Any = None,
        confidence: Any = None,
        predicted: Any = None,
        bank: Any = None,
    ) -> list[Explanation]:
        """Say for each row why it is accepted or rejected, with its p-value; see `predict`.

        bank: known inputs, e.g. those held out; each explanation then names the positions of the
        nearest (by cosine).
        """
        judged = self.judge(X, alpha, confidence, predicted)
        told = explain(self.detector, X)
        examples = [()] * len(told) if bank is None else self._nearest(X, bank)
        return [
            replace(
                one, p_value=float(p), typical=bool(typical), threshold=None, examples=tuple(near)
            )
            for one, p, typical, near in zip(
                told, judged.p_values, judged.typical, examples, strict=True
            )
        ]

    def _nearest(self, X: Any, bank: Any) -> list[Any]:
        """Return the positions of the rows of `bank` with the largest cosines to each row of X."""
        queries, known = (
            as_floating(to_numpy(as_features(detector_input(self.detector, rows))))
            for rows in (X, bank)
        )
        similar = cosines(queries, unit_rows(known[known.any(axis=1)]).astype(queries.dtype))
        positions = np.flatnonzero(known.any(axis=1))
        return [
            positions[row].tolist()
            for row in np.argsort(-similar, axis=1, kind="stable")[:, :EXAMPLES]
        ]

    def _levels(self, alpha: Any, confidence: Any) -> tuple[Any, Any]:
        """Return what was asked for, or the constructor's."""
        if alpha is None:
            return self.alpha, self.confidence if confidence is None else confidence
        return alpha, confidence

    @border
    def discoveries(
        self, X: Any, fdr: Any = 0.1, method: str = "bh", lam: Any = 0.5, predicted: Any = None
    ) -> NDArray[np.bool_]:
        """Return True for the rows that are out of distribution, of which a share `fdr` may be wrong on average.

        method: "bh" or "storey" (with `lam`), see `typica.fdr`; needs all calibration scores, no
        sketch. The calibration inputs and the in-distribution rows of X must be independent and
        alike distributed.
        """
        if method not in ("bh", "storey"):
            raise InputError(f"method={method!r}; pass 'bh' or 'storey'.")
        if not all(scores.exact for scores in self.calibration.sets.values()):
            raise InputError(
                "a sketch lacks what the guarantee needs; calibrate without max_scores."
            )
        if method == "storey" and self.by_class:
            raise InputError(
                "'storey' needs one calibration set for all; use 'bh', or by_class=False."
            )
        share = check_share(lam, "lam")
        p = self.calibration.p_values(*self.scored(X, predicted))
        if method == "bh":
            return benjamini_hochberg(p, fdr)
        steps = self.n + 1
        return storey(p, fdr, f"{max(1, math.floor(share * steps))}/{steps}")

    @border
    def summary(self, alpha: Any = None, confidence: Any = None) -> dict[str, Any]:
        """Return as plain JSON types what the calibration amounts to: per group n, k, threshold and sketch error."""
        alpha, confidence = self._levels(alpha, confidence)
        final = final_detector(self.detector)
        limits = self.calibration.limits(alpha, confidence)
        groups = {
            group: {
                "n": scores.n,
                "k": guaranteed_rank(scores.n, alpha, confidence),
                "threshold": json_number(limits[group]),
                "error": scores.error,
            }
            for group, scores in sorted(self.calibration.sets.items())
        }
        return {
            "detector": getattr(final, "kind", type(final).__name__),
            "n": self.n,
            "by_class": self.by_class,
            "alpha": float(check_share(alpha, "alpha", zero=True)),
            "confidence": None
            if confidence is None
            else float(check_share(confidence, "confidence")),
            "groups": groups,
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write detector and calibration to one safetensors file; `typica.load` reads it back."""
        store.save(self, path)

    @border
    def scored(self, X: Any, predicted: Any = None) -> tuple[NDArray[Any], Classes]:
        """Return the scores of X and, with by_class, the predicted class of each row."""
        final = final_detector(self.detector)
        Z = detector_input(self.detector, X)
        scores = check_scores(final.score_samples(Z))
        if not self.by_class:
            if predicted is not None:
                raise InputError("predicted classes are for by_class=True; leave them out.")
            return scores, None
        classes = final.classify(Z) if predicted is None else to_numpy(predicted)
        if classes.shape != scores.shape:
            raise InputError(
                f"predicted has shape {classes.shape} for {len(scores)} rows; pass one a row."
            )
        return scores, classes

    def state(self) -> dict[str, Any]:
        """Return what is to be stored."""
        groups = (
            None
            if self.groups is None
            else [[str(name), str(group)] for name, group in self.groups.items()]
        )
        levels = {
            "alpha": str(self.alpha),
            "confidence": None if self.confidence is None else str(self.confidence),
        }
        params = {"by_class": self.by_class, "max_scores": self.max_scores, **levels}
        return {"detector": self.detector, **params, "groups": groups, "calibration": self._known}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> ConformalDetector:
        """Rebuild the detector from what was stored."""
        groups = None if state["groups"] is None else dict(state["groups"])
        kept = {key: state[key] for key in ("by_class", "max_scores", "alpha", "confidence")}
        made = cls(state["detector"], groups=groups, **kept)
        made._known = state["calibration"]
        return made


def fingerprint(estimator: Any) -> str:
    """Return the SHA-256 of all that makes the scores of a fitted detector or Pipeline; thresholds are left out.

    >>> import typica
    >>> one, other = (typica.CTM().fit(np.eye(20) + shift, range(20)) for shift in (0.0, 0.1))
    >>> fingerprint(one) == fingerprint(one), fingerprint(one) == fingerprint(other)
    (True, False)
    """
    scoring = copy.copy(final_detector(estimator))
    scoring._learnt_more()  # drops the threshold
    if isinstance(estimator, Pipeline):
        scoring = Pipeline([*estimator.steps[:-1], (estimator.steps[-1][0], scoring)])
    return store.fingerprint(scoring)
