"""Decisions by one calibration: verdicts, p-values, discoveries."""

from __future__ import annotations

import contextlib
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from typica import store
from typica.arrays import AnyArray, Array, beside, frame_index, like, namespace, to_numpy
from typica.calibration import Calibration, Classes, Levels, check_scores, check_threshold
from typica.checks import check_share, random_numbers
from typica.detectors._calibrated import Calibrated
from typica.detectors._matches import Matches
from typica.errors import InputError, argument, border
from typica.groups import judge_groups
from typica.origin import Origin
from typica.verdicts import Rule, Verdicts
from typica.written_numbers import Level

_KINDS = {
    "origin_": Origin,
    "calibration_": Calibration,
    "training_offset_": float,
    "fitted_on_": dict,
}


class Decider(Calibrated):
    """A scorer that decides, by the scores of held-out in-distribution rows."""

    @border
    def decision_function(self, X: Any, *, predicted: Any = None) -> Array:
        """Return score - threshold: negative where the row is rejected."""
        scores, offsets = self._scores_and_offsets(X, predicted)
        if isinstance(offsets, float) and offsets > -np.inf:
            return scores - offsets
        xp = namespace(scores)
        with np.errstate(invalid="ignore"):
            above = scores - offsets
        # A score of -inf is accepted where nothing is rejected, and not NaN above it.
        at = (scores == offsets) & (scores == -xp.inf)
        return xp.where(at, xp.zeros_like(above), above)

    @border
    def predict(self, X: Any, *, predicted: Any = None) -> Array:
        """Return +1 for typical rows (score >= threshold) and -1 for the others."""
        scores, offsets = self._scores_and_offsets(X, predicted)
        xp = namespace(scores)
        return 2 * xp.astype(scores >= offsets, xp.int64) - 1

    @border
    def p_values(
        self, X: Any, *, randomised: bool = False, seed: Any = None, predicted: Any = None
    ) -> Array:
        """Return the p-value of each row: how typical it is, at least 1 / (n + 1).

        In float64; a tensor where X is one, on its device.

        Parameters
        ----------
        X
            Features (n, m), or a bank.
        randomised
            Return (#{<} + U (1 + #{=})) / (n + 1) with a uniform U, so that P(p <= alpha) = alpha
            exactly, ties or not.
        seed
            Of the random numbers U.
        predicted
            If calibrated by class: the class predicted for each row; `classify(X)` if None.
        """
        Z = self._ready(X)
        calibration = self._calibrated()
        rng = random_numbers(seed) if randomised else None
        scored = self._scored(Z, calibration.by_class, predicted)
        p = calibration.p_values(check_scores(scored.scores), scored.classes, rng)
        return p if isinstance(Z, np.ndarray) else beside(p, Z)

    @border
    def discoveries(
        self,
        X: Any,
        *,
        fdr: Level = 0.1,
        method: Literal["bh", "storey"] = "bh",
        lam: Level = 0.5,
        predicted: Any = None,
    ) -> NDArray[np.bool_]:
        """Return True for rows out of distribution, of which a share `fdr` may be wrong on average.

        The calibration rows and the in-distribution rows of X must be independent and identically
        distributed.

        Parameters
        ----------
        X
            Features (n, m), or a bank, judged together.
        fdr
            The false discovery rate.
        method
            "bh" or "storey"; see `typica.fdr`.
        lam
            Of "storey" only.
        predicted
            If calibrated by class: the class predicted for each row; `classify(X)` if None.
        """
        Z = self._ready(X)
        calibration = self._calibrated()
        scored = self._scored(Z, calibration.by_class, predicted)
        scores = check_scores(scored.scores)
        return calibration.discoveries(scores, scored.classes, fdr, method, lam)

    @border
    def judge(
        self,
        X: Any,
        *,
        alpha: Level | None = None,
        tpr: Level | None = None,
        confidence: Level | None = None,
        fdr: Level | None = None,
        predicted: Any = None,
        groups: Any = None,
    ) -> Verdicts:
        """Return the verdict on each row, with score, p-value and nearest classes, in one pass.

        Parameters
        ----------
        X
            Features (n, m), or a bank.
        alpha
            The false-alarm rate, in place of the one of `calibrate`.
        tpr
            1 - alpha, in its place.
        confidence
            In place of the one of `calibrate`. If only one of alpha and confidence is given, the
            other stays as it was calibrated.
        fdr
            Reject what `discoveries` names, of which a share `fdr` is wrong on average.
        predicted
            If calibrated by class: the class predicted for each row; `classify(X)` if None.
        groups
            What each row belongs to (n,), e.g. the image of a box. The rows of a group are judged
            together, alpha or fdr is that of a group, and `groups` of the result has the verdicts
            on the groups: see `typica.groups`. Not the groups of `calibrate`, which join classes.
        """
        levels = {"alpha": alpha, "tpr": tpr, "confidence": confidence}
        return self._judge(X, **levels, fdr=fdr, predicted=predicted, groups=groups)[0]

    def _judge(
        self,
        X: Any,
        *,
        alpha: Level | None = None,
        tpr: Level | None = None,
        confidence: Level | None = None,
        fdr: Level | None = None,
        predicted: Any = None,
        groups: Any = None,
    ) -> tuple[Verdicts, Matches | None]:
        """Return what `judge` does, and the places of the classes that match each row best."""
        asked = [level for level in (alpha, tpr, confidence) if level is not None]
        if fdr is not None and asked:
            others = f"{argument('alpha')} and {argument('confidence')}"
            raise InputError(
                f"{argument('fdr')} cannot be combined with other levels; leave out {others}."
            )
        Z = self._ready(X)
        levels = self._levels(alpha, tpr, confidence)
        rule = _rule(levels, fdr)
        if fdr is not None or groups is not None:
            self._calibrated()
        calibration: Calibration | None = getattr(self, "calibration_", None)
        by_class = calibration is not None and calibration.by_class
        scored = self._scored(Z, by_class, predicted, matching=True)
        scores = check_scores(scored.scores)
        if calibration is None:
            decided = _provisional(self, scores)
        elif groups is not None:
            p = calibration.p_values(scores, scored.classes)
            decided = _by_groups(p, scores, groups, levels, fdr)
        else:
            decided = _by_rows(calibration, scores, scored.classes, levels, fdr)
        names = self._names(scored.matches)
        verdicts = Verdicts(scores, rule=rule, **decided, **names, index=frame_index(X))
        return verdicts, scored.matches

    def try_parts(self) -> None:
        """Use everything once, so that parts of the wrong kind are found when they are loaded.

        It is fine if it is merely not fitted, or needs predicted classes.
        """
        for name, kind in _KINDS.items():
            if name in vars(self) and not isinstance(vars(self)[name], kind):
                raise TypeError(f"{name} is a {type(vars(self)[name]).__name__}")
        if hasattr(self, "calibration_"):
            self.calibration_.try_parts()
        repr(self)
        self._share_fitted_on(np.ones((1, 1)))
        if self.n_features is None:
            return
        rows = store.trial_rows(self.n_features)
        for use in (self.judge, self.explain):
            with contextlib.suppress(InputError), np.errstate(all="ignore"):
                str(use(rows))

    def _scores_and_offsets(self, X: Any, predicted: Any) -> tuple[Array, Array]:
        """Return the scores of X and the threshold of each, a number if it is the same for all."""
        Z = self._ready(X)
        calibration: Calibration | None = getattr(self, "calibration_", None)
        if calibration is None or not calibration.by_class:
            offset = self.offset_
            scores = self._scored(Z, False, predicted).scores
            check_threshold(offset, scores.dtype, namespace(scores).finfo(scores.dtype).min)
            return scores, offset
        scored = self._scored(Z, True, predicted)
        offsets = calibration.offsets(to_numpy(scored.scores), scored.classes)
        return scored.scores, like(offsets, scored.scores)

    def _names(self, matches: Matches | None) -> dict[str, Any]:
        """Return the columns of Verdicts about classes."""
        if matches is None:
            return {}
        second = self.classes_[matches.runner_up].astype(object)
        second[matches.runner_up < 0] = None
        return {
            "nearest": self._predicted(matches),
            "similarity": matches.similarity,
            "runner_up": second,
            "runner_up_similarity": matches.runner_up_similarity,
        }

    def _levels(
        self, alpha: Level | None, tpr: Level | None, confidence: Level | None
    ) -> Levels | None:
        """Return the levels to decide by, asked for or the calibration's; None without one."""
        asked = any(level is not None for level in (alpha, tpr, confidence))
        if not asked and not hasattr(self, "calibration_"):
            return None
        known = self._calibrated().levels
        if not asked:
            return known
        if alpha is None and tpr is None:
            alpha = known.alpha
        return Levels.of(alpha, tpr, known.confidence if confidence is None else confidence)


def _provisional(decider: Decider, scores: AnyArray) -> dict[str, Any]:
    """Return the columns of Verdicts that the threshold of `fit` gives, if there is one."""
    offset = getattr(decider, "training_offset_", None)
    if offset is None:
        return {}
    check_threshold(offset, scores.dtype, np.finfo(scores.dtype).min)
    return {"typical": scores >= offset, "threshold": np.full(len(scores), offset)}


def _by_rows(
    calibration: Calibration,
    scores: AnyArray,
    classes: Classes,
    levels: Levels | None,
    fdr: Level | None,
) -> dict[str, Any]:
    """Return the columns of Verdicts that a calibration gives, each row decided by itself."""
    p = calibration.p_values(scores, classes)
    if fdr is not None:
        return {"typical": ~calibration.discoveries(scores, classes, fdr), "p_value": p}
    offsets = calibration.offsets(scores, classes, levels)
    return {"typical": scores >= offsets, "threshold": offsets, "p_value": p}


def _rule(levels: Levels | None, fdr: Level | None) -> Rule | None:
    """Return what decides, as plain numbers."""
    if fdr is not None:
        return Rule(fdr=float(check_share(fdr, "fdr")))
    return None if levels is None else Rule(**levels.to_dict())


def _by_groups(
    p: NDArray[np.float64], scores: AnyArray, groups: Any, levels: Levels | None, fdr: Level | None
) -> dict[str, Any]:
    """Return what `Detector.judge` says by p-values, the rows of a group taken together."""
    if levels is None or fdr is not None:
        return judge_groups(p, scores, groups, fdr=fdr)._asdict() | {"p_value": p}
    if levels.confidence is not None:
        raise InputError(
            f"{argument('groups')} with a {argument('confidence')}: p-values of groups hold on "
            f"average over calibration sets; calibrate without, or pass {argument('fdr')}."
        )
    return judge_groups(p, scores, groups, alpha=levels.alpha)._asdict() | {"p_value": p}
