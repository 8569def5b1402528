"""The scores of held-out rows, and the thresholds that come from them."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from typica import store
from typica.arrays import Array, check_some
from typica.calibration import (
    Calibration,
    Classes,
    Levels,
    check_scores,
    pool_rare,
    predicted_classes,
    warn_of_fitted_rows,
    warn_of_pool,
)
from typica.detectors._matches import Matches
from typica.detectors._training_threshold import Provisional, advice_to_calibrate
from typica.errors import InputError, border, counted
from typica.estimator import NotFittedError
from typica.moments import Moments
from typica.remembered import RememberedStep
from typica.store import State
from typica.written_numbers import Level

Places = NDArray[np.int64]  # which rows
# The share of a calibration's rows that were fitted on, from which on one is warned: some rows of a
# data set may well occur twice.
MOST_FITTED_ON = 0.5

# No score depends on them.
_DECISIONS = ("calibration_", "width_", "training_offset_", "_training_sample", "fitted_on_")
_HAS_THRESHOLD = ("calibration_", "training_offset_", "_training_sample")


class Scored(NamedTuple):
    """Scores as the detector made them, and what else decisions need to know about the rows."""

    scores: Array
    matches: Matches | None
    classes: Classes


class Calibrated(Provisional):
    """A scorer that keeps the scores of held-out in-distribution rows, and thresholds from them.

    calibration_: those scores, once `calibrate` was called. width_: how many numbers these rows
    had, where nothing else says how many they must have, as for bare logits.
    """

    calibration_: Calibration
    width_: int

    # What a method supplies

    def _before_calibration(self, Z: Array) -> Places | None:
        """Let a method look at held-out rows; return which of them calibrate, None for all.

        Scores that depend on a row cannot be compared with that row's own: it must not calibrate.
        """
        return None

    # What users call

    @border
    def calibrate(
        self,
        X: Any,
        *,
        alpha: Level | None = None,
        tpr: Level | None = None,
        confidence: Level | None = None,
        by_class: bool = False,
        groups: Mapping[Any, str] | None = None,
        predicted: Any = None,
        source: str = "",
    ) -> Self:
        """Decide from now on by the scores of held-out in-distribution rows.

        A new in-distribution row is then rejected with probability at most alpha. The rows must not
        have been used by `fit`. See `typica.calibrate` for pipelines.

        Parameters
        ----------
        X
            Held-out features (n, m), or a bank.
        alpha
            The false-alarm rate, 0.05 if neither it nor tpr is given.
        tpr
            1 - alpha, in its place.
        confidence
            With this probability over the draw of X, the false-alarm rate of this very detector is
            at most alpha.
        by_class
            Compare a row only with rows of the same predicted class, so that all this holds within
            each predicted class.
        groups
            {class: group} joins classes; the others stand alone. None joins the classes that are
            rare in training, where the detector knows them (see `typica.calibration.pool_rare`).
            Not the groups of `judge`, which say what each row belongs to.
        predicted
            With by_class: the class predicted for each row; `classify(X)` if None.
        source
            The name of the data, e.g. its file within the data set, for merges.
        """
        levels = Levels.of(alpha, tpr, confidence)
        with _unchanged_on_error(self):
            self.__dict__.pop("width_", None)  # a new calibration may be on other rows
            Z = self._ready(X)
            check_some(Z)
            if by_class and groups is None:
                groups = self._rare_classes(Z.shape[0])
            made = Calibration(levels, by_class=by_class, groups=groups)
            chosen = self._before_calibration(Z)
            scored = self._scored(Z, by_class, predicted)
            scores, classes = check_scores(scored.scores), scored.classes
            if chosen is not None:
                made.is_of_half = True
                scores, classes = scores[chosen], None if classes is None else classes[chosen]
            made.add(scores, classes, source)
            made.pass_over(len(scored.scores) - len(scores), source)
            made.thresholds()  # says what is wrong with them
            made.scored_by = self.fingerprint()
        share = self._share_fitted_on(Z)
        if share >= MOST_FITTED_ON:
            warn_of_fitted_rows(share)
        return self._decide_by(made, Z)

    @border
    def begin_calibration(
        self,
        n: int | None = None,
        *,
        alpha: Level | None = None,
        tpr: Level | None = None,
        confidence: Level | None = None,
        by_class: bool = False,
        groups: Mapping[Any, str] | None = None,
    ) -> Calibration:
        """Return a calibration without scores, for `add_scores` to fill part by part, anywhere.

        Parameters
        ----------
        n
            How many rows there will be, from which it follows which classes are rare and joined.
            None where this is not known: only `groups` joins any then.
        alpha, tpr, confidence, by_class, groups
            As `calibrate` takes them.
        """
        levels = Levels.of(alpha, tpr, confidence)
        self._check_fitted()
        self._prepare()
        if by_class and groups is None and n is not None:
            groups = self._rare_classes(n)
        scored_by = self.fingerprint()
        return Calibration(levels, by_class=by_class, groups=groups, scored_by=scored_by)

    @border
    def add_scores(
        self,
        calibration: Calibration,
        X: Any,
        *,
        predicted: Any = None,
        source: str = "",
        start: int | None = None,
        left_out: Any = (),
    ) -> Calibration:
        """Add the scores of held-out rows X to a calibration, which is changed and returned.

        Parameters
        ----------
        calibration
            What `begin_calibration` returned.
        X
            Held-out features (n, m), or a bank.
        predicted
            If calibrated by class: the class predicted for each row; `classify(X)` if None.
        source, start
            The name of the data, and the number of its first row in X. They identify each row, so
            that the calibration is the same whatever parts it was made of.
        left_out
            The places, counted from `start`, of rows of the data that are not in X.
        """
        scored = self._scored(self._ready(X), calibration.by_class, predicted)
        scores = check_scores(scored.scores)
        return calibration.add(scores, scored.classes, source, start, left_out)

    @border
    def set_calibration(self, calibration: Calibration, *, fingerprint: str | None = None) -> Self:
        """Decide by a calibration that was filled elsewhere, with scores of this very fit.

        fingerprint: of the Pipeline that ends in this detector, if there is one.
        """
        if not isinstance(calibration, Calibration):
            raise InputError(f"got {type(calibration).__name__}; pass a Calibration.")
        if not calibration.n:
            raise InputError("there are no held-out rows; pass some.")
        scored_by = self.fingerprint() if fingerprint is None else fingerprint
        if calibration.scored_by not in ("", scored_by):
            raise InputError(
                "the calibration holds the scores of another fit; fill one of this detector, by "
                "begin_calibration and add_scores."
            )
        calibration.thresholds()  # says what is wrong with them
        return self._decide_by(calibration)

    @border
    def partial_calibrate(
        self,
        X: Any,
        *,
        alpha: Level | None = None,
        tpr: Level | None = None,
        confidence: Level | None = None,
        by_class: bool | None = None,
        groups: Mapping[Any, str] | None = None,
        predicted: Any = None,
        source: str = "",
    ) -> Self:
        """Take in one more batch of held-out rows.

        Parameters
        ----------
        X
            Held-out features (n, m), or a bank.
        alpha, tpr, confidence, by_class, groups
            As `calibrate` takes them, with the first batch only. Rare classes are not joined
            unless `groups` says so, because the length of a stream is not known.
        predicted, source
            As `calibrate` takes them.
        """
        Z = self._ready(X)  # without what is stale
        check_some(Z)
        made = getattr(self, "calibration_", None)
        if made is None:
            levels = Levels.of(alpha, tpr, confidence)
            made = Calibration(levels, by_class=bool(by_class), groups=groups)
            made.scored_by = self.fingerprint()
        elif any(given is not None for given in (alpha, tpr, confidence, by_class, groups)):
            raise InputError("the first batch decided alpha, by_class and groups; leave them out.")
        scored = self._scored(Z, made.by_class, predicted)
        made.add(check_scores(scored.scores), scored.classes, source)
        return self._decide_by(made, Z)

    def set_params(self, **params: Any) -> Self:
        """Set parameters; a threshold that came from other ones is void then."""
        super().set_params(**params)
        self._drop_stale_decisions()
        return self

    def __copy__(self) -> Self:
        """Return a copy with a calibration of its own, which can take in more rows."""
        made = type(self).__new__(type(self))
        made.__dict__.update(super(Provisional, self).__getstate__())
        if hasattr(self, "_training_sample"):
            made._training_sample = self._training_sample  # whose threshold still waits
        if hasattr(self, "calibration_"):
            made.calibration_ = copy.deepcopy(self.calibration_)
        return made

    def current_calibration(self) -> Calibration | None:
        """Return `calibration_`, where there is one that was made with today's parameters."""
        self._drop_stale_decisions()
        return getattr(self, "calibration_", None)

    def _decide_by(self, calibration: Calibration, Z: Array | None = None) -> Self:
        """Decide by a calibration; Z: rows like those that it was made from, if at hand."""
        self.calibration_ = calibration
        if Z is not None and self.n_features is None:
            self.width_ = int(Z.shape[1])
        self.__dict__.pop("_training_sample", None)  # whose threshold nobody needs any more
        self._decided_with = self._parameters()
        self.__dict__.pop("_decided_after", None)
        return self

    def decided_after(self, steps: Sequence[Any]) -> None:
        """Note the parameters of the steps before it, which made the rows of the calibration.

        A Pipeline's `set_params` can change them, and with them the scores.
        """
        if steps:
            self._decided_after = [RememberedStep.of(step) for step in steps]

    @property
    def n_features(self) -> int | None:
        """The number of features that a row must have, or None if anything goes."""
        known = super().n_features
        return getattr(self, "width_", None) if known is None else known

    @property
    def has_threshold(self) -> bool:
        """Whether there is a threshold: of `calibrate`, or the provisional one of `fit`."""
        self._drop_stale_decisions()
        return any(name in vars(self) for name in _HAS_THRESHOLD)

    @property
    @border
    def threshold_(self) -> float:
        """The score at or above which a row is accepted; scikit-learn calls it `offset_`."""
        return self.offset_

    @property
    @border
    def thresholds_(self) -> dict[str, float]:
        """The threshold of each group of classes; of "all" if not calibrated by class."""
        return self.offsets_

    @property
    @border
    def offset_(self) -> float:
        """The threshold under the name that scikit-learn gives it."""
        self._drop_stale_decisions()
        if hasattr(self, "calibration_"):
            return self.calibration_.threshold
        if hasattr(self, "training_offset_"):
            return self.training_offset_
        raise NotFittedError(
            "there is no threshold yet (partial_fit, merge and other parameters invalidate it); "
            f"{advice_to_calibrate()}."
        )

    @property
    @border
    def offsets_(self) -> dict[str, float]:
        """The thresholds, named as `offset_` is."""
        self._drop_stale_decisions()
        if hasattr(self, "calibration_"):
            return self.calibration_.thresholds()
        return {"all": self.offset_}

    def fingerprint(self) -> str:
        """Return the SHA-256 of all that makes the scores; "" for what cannot be stored.

        Thresholds and calibration are left out: two fits with equal scores have one fingerprint.
        """
        if self._has_learnt():
            self._prepare()  # which joins what was learnt in batches
        scoring = type(self).__new__(type(self))
        known, left_out = vars(self), {*_DECISIONS, "_decided_with", "_in_fit"}
        scoring.__dict__.update({name: known[name] for name in known if name not in left_out})
        if hasattr(scoring, "origin_"):
            scoring.origin_ = scoring.origin_.alone()
        try:
            return store.fingerprint(scoring)
        except InputError:
            return ""

    def _rare_classes(self, n: int) -> dict[Any, str] | None:
        """Return the group of each class that is rare in training, where that is known."""
        moments = getattr(self, "moments_", None)
        if not isinstance(moments, Moments):
            return None
        rare = pool_rare(moments.classes, moments.counts, n)
        if rare:
            warn_of_pool(rare, moments.counts, n)
        return rare

    def _scored(self, Z: Array, by_class: bool, predicted: Any, matching: bool = False) -> Scored:
        """Return the scores of checked rows, with matches and predicted classes where needed."""
        if predicted is not None and not by_class:
            raise InputError("predicted classes are for by_class=True; leave them out.")
        if not matching and (not by_class or predicted is not None):
            scores, matches = self._scores(Z), None
        else:
            scores, matches = self._assess(Z)
        if not by_class:
            return Scored(scores, matches, None)
        classes = self._predicted(matches) if predicted is None else predicted_classes(predicted)
        if classes.shape != tuple(scores.shape):
            raise InputError(
                f"predicted has shape {classes.shape} for {counted(scores.shape[0], 'row')}; "
                "pass one per row."
            )
        return Scored(scores, matches, classes)

    def _calibrated(self) -> Calibration:
        if not hasattr(self, "calibration_"):
            raise NotFittedError(f"there are no calibration scores; {advice_to_calibrate()}.")
        return self.calibration_

    def _drop_stale(self, parameters: list[Any]) -> None:
        super()._drop_stale(parameters)
        self._drop_stale_decisions(parameters)

    def _drop_stale_decisions(self, parameters: list[Any] | None = None) -> None:
        """Forget thresholds that were set with other parameters, which make other scores."""
        parameters = self._parameters() if parameters is None else parameters
        changed = getattr(self, "_decided_with", parameters) != parameters
        if changed or any(step.has_changed() for step in getattr(self, "_decided_after", ())):
            self._learnt_more()

    def _learnt_more(self) -> None:
        for name in (*_DECISIONS, "_decided_with", "_decided_after"):
            self.__dict__.pop(name, None)

    def state(self) -> State:
        """Return what is to be stored, without a threshold that came from other parameters."""
        self._drop_stale_decisions()
        if hasattr(self, "_in_fit") or self._has_lost_its_threshold():
            raise InputError(
                "the last fit has not ended, or another thread changed the detector since; fit it "
                "again, in one thread, before it is saved."
            )
        return super().state()

    def _has_lost_its_threshold(self) -> bool:
        return hasattr(self, "_decided_with") and not set(_HAS_THRESHOLD) & set(vars(self))

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild a detector from what was stored."""
        made = super().from_state(state)
        if set(_DECISIONS) & set(vars(made)):
            made._decided_with = made._parameters()
        return made


@contextlib.contextmanager
def _unchanged_on_error(estimator: Calibrated) -> Iterator[None]:
    """Leave an estimator as it was if the block fails."""
    before = dict(vars(estimator))
    try:
        yield
    except Exception:
        estimator.__dict__.clear()
        estimator.__dict__.update(before)
        raise
