"""The provisional threshold of `fit`: from a sample of the training rows themselves."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray, Array, Labels, as_floating, check_some, namespace, to_numpy
from typica.calibration import (
    Levels,
    check_scores,
    guaranteed_rank,
    threshold_at,
)
from typica.detectors._scoring import Scorer
from typica.errors import CalibrationWarning, InputError, border, by_caller, warn
from typica.keys import Keys, row_sums
from typica.labels import labels_at
from typica.store import State
from typica.threads import one_blas_thread

TRAINING_SAMPLE = 2048  # how many training rows the provisional threshold of `fit` looks at
HASHED = 2**14  # how many rows of a calibration are compared with training rows, about
TRAINING_TPR = 0.95
TRAINING_ALPHA = Levels.of(tpr=TRAINING_TPR).alpha

_lock = threading.RLock()  # one provisional threshold at a time: `cached_property` takes no lock


class TrainingSample(NamedTuple):
    """Training rows that the threshold looks at, and their labels where those are known."""

    rows: Array
    labels: Labels | None = None


class Provisional(Scorer):
    """A scorer whose threshold comes from its own training rows, until it is calibrated.

    training_offset_: that threshold. fitted_on_: how many training rows there were, and hashes of
    those that the threshold looks at.
    """

    fitted_on_: dict[str, Any]
    _training_sample: TrainingSample  # until somebody asks for the threshold, or calibrates

    @border
    def set_training_threshold(self, X: Any, n: int | None = None) -> Self:
        """Set the provisional threshold of `fit`, from at most 2,048 of the training rows X.

        n: how many training rows there were, if X is only a sample of them.
        """
        Z = self._ready(X)
        check_some(Z)
        self._set_provisional_threshold(Z)
        if n is not None:
            self.fitted_on_["n"] = n
        return self

    @cached_property
    def training_offset_(self) -> float:
        """The provisional threshold of `fit`, which is not a calibration."""
        with _lock:
            if "training_offset_" in vars(self):  # another thread was faster
                return self.training_offset_
            if hasattr(self, "_training_sample"):
                self._prepare()  # which drops the sample where parameters have changed
            sample = getattr(self, "_training_sample", None)
            if sample is None:
                raise AttributeError("there is no provisional threshold")
            self.training_offset_ = self._provisional_threshold(sample)
            self.__dict__.pop("_training_sample", None)
            return self.training_offset_

    def state(self) -> State:
        """Return parameters and fitted attributes, to be stored."""
        self._take_late_threshold()
        return super().state()

    def __getstate__(self) -> dict[str, Any]:
        self._take_late_threshold()
        return super().__getstate__()

    def __dir__(self) -> list[str]:
        """Return the names of attributes; scikit-learn's would compute each property for this."""

        def there(name: str) -> bool:
            of_class = inspect.getattr_static(type(self), name, None)
            return isinstance(of_class, property | cached_property) or hasattr(self, name)

        return list(filter(there, object.__dir__(self)))

    def _before_threshold(self, Z: Array) -> None:
        """Let a method look at the training rows that the threshold comes from."""

    def _scores_at_least(self, Z: AnyArray, labels: Labels) -> AnyArray | None:
        """Return lower bounds on the scores of training rows of known classes, if that is cheap."""
        return None

    def _set_provisional_threshold(self, Z: Array, y: Any = None) -> None:
        """Keep a sample of many rows: if `calibrate` comes next, nobody needs their threshold."""
        sample = training_sample(Z, y if self.tags.uses_labels else None)
        self._before_threshold(sample.rows)
        if sample.rows.shape[0] < Z.shape[0]:
            self.__dict__.pop("training_offset_", None)
            self._training_sample = sample
        else:
            self.training_offset_ = self._provisional_threshold(sample)
        self.fitted_on_ = {"n": Z.shape[0], "hashes": row_sums(to_numpy(sample.rows))}
        self._decided_with = self._parameters()

    def _share_fitted_on(self, Z: Array) -> float:
        """Return which share of some rows were fitted on, as far as kept hashes tell.

        New rows may well equal those that occur often, such as rows of zeros: only rows that occur
        once count. More of them must be found than would be by chance, as estimated from how many
        training rows occur twice; one may always be.
        """
        if not hasattr(self, "fitted_on_"):
            return 0.0
        kept = self.fitted_on_["hashes"]
        hashes = row_sums(to_numpy(Z[:: 1 + Z.shape[0] // HASHED, ...]))
        once, pairs = _singles(kept)
        single, _ = _singles(hashes)
        found = int(np.isin(single, once).sum())
        chance = 2 * (pairs + 2 * pairs**0.5) * len(hashes) / len(kept)  # two standard deviations
        share = found / max(1, len(single)) * float(self.fitted_on_["n"]) / len(kept)
        return min(1.0, share) if found > max(1, chance) else 0.0

    def _provisional_threshold(self, sample: TrainingSample) -> float:
        """Return the threshold that a sample of the training rows gives."""
        rows = sample.rows
        single = as_floating(rows[:1, ...]).dtype != namespace(rows).float64
        tolerance = self.tags.tolerance[0 if single else 1]
        return training_threshold(self._sample_scores(sample, tolerance), tolerance)

    def _sample_scores(self, sample: TrainingSample, tolerance: float) -> AnyArray:
        """Return the scores of a sample; of rows that cannot set the threshold, a lower bound."""
        rows, labels = sample
        floors = None if labels is None else self._scores_at_least(to_numpy(rows), labels)
        if floors is None:
            return check_scores(to_numpy(self._scores(rows)))
        rank = guaranteed_rank(len(floors), TRAINING_ALPHA)

        def score(some: NDArray[np.int64]) -> AnyArray:
            return check_scores(to_numpy(self._scores(rows[some])))

        with one_blas_thread():  # for few rows: more would busy-wait during what follows
            return lowest_scores(score, floors - tolerance, rank)

    def _take_late_threshold(self) -> None:
        """Turn the sample of training rows, where there is one, into the threshold."""
        if hasattr(self, "_training_sample"):
            getattr(self, "training_offset_", None)


def _singles(hashes: Keys) -> tuple[Keys, int]:
    """Return those that occur once, and how many occur twice."""
    values, counts = np.unique(hashes, return_counts=True)
    return values[counts == 1], int(np.sum(counts == 2))


def training_sample(Z: Array, y: Any = None) -> TrainingSample:
    """Return the rows that the threshold looks at, the same ones each time."""
    if Z.shape[0] <= TRAINING_SAMPLE:
        return TrainingSample(Z)
    chosen = np.random.default_rng(0).choice(Z.shape[0], TRAINING_SAMPLE, replace=False)
    chosen = np.sort(chosen)
    return TrainingSample(to_numpy(Z)[chosen], None if y is None else labels_at(y, chosen))


def lowest_scores(
    score: Callable[[NDArray[np.int64]], AnyArray], floors: AnyArray, k: int
) -> AnyArray:
    """Return scores (n,), exact for at least the k lowest; the others may be their floors.

    score: returns the scores of some rows, given by number. floors: lower bounds (n,) on the
    scores. Only a row whose floor is below the k-th lowest score, k at least 1, can be among the k.

    >>> scores = np.array([5.0, 1.0, 4.0, 2.0, 3.0])
    >>> lowest_scores(lambda rows: scores[rows], scores - 0.5, k=1)
    array([4.5, 1. , 3.5, 2. , 2.5])
    """
    found = floors.copy()
    order = np.argsort(floors)
    first, others = order[: 2 * k], order[2 * k :]
    found[first] = score(first)
    limit = np.sort(found[first])[k - 1]
    others = others[floors[others] < limit]
    if len(others):
        found[others] = score(others)
    return found


def training_threshold(scores: AnyArray, tolerance: float) -> float:
    """Return the threshold that keeps TRAINING_TPR of these scores.

    The row that sets it is a training row: rounding, which depends on the batch that a row comes
    in, must not reject it when it comes again. tolerance: how far scores may stray, relative to
    the largest.
    """
    k = guaranteed_rank(len(scores), TRAINING_ALPHA)
    if k == 0:
        warn(
            f"{len(scores)} training rows are too few for a threshold that rejects anything; "
            f"{advice_to_calibrate()}.",
            CalibrationWarning,
        )
    threshold = threshold_at(k, np.sort(scores))
    if k and threshold == -np.inf:
        threshold = _lowest_finite(scores)  # -inf is never typical
    largest = float(np.abs(scores[np.isfinite(scores)]).max(initial=0))
    return threshold - tolerance * largest


def advice_to_calibrate() -> str:
    """Return what to do about a detector that has no threshold, or a poor one, for messages."""
    how = by_caller("call calibrate", "run `typica calibrate`")
    return f"{how} with held-out inputs"


def _lowest_finite(scores: AnyArray) -> float:
    finite = scores[np.isfinite(scores)]
    if not len(finite):
        raise InputError("no training row has a finite score; rescale the features.")
    return float(finite.min())
