"""A decision on one input with a guarantee: conformal p-values.

    p(x) = (1 + #{calibration scores <= score(x)}) / (n + 1)

If x comes from where the n calibration inputs come from (all n + 1 exchangeable), P(p(x) <= alpha) <= alpha, whatever
the network and the detector: reject where p <= alpha. The probability is over the calibration draw as well as over x.
Vovk, Gammerman, Shafer: Algorithmic Learning in a Random World, 2005; Laxhammar, Falkman: Inductive Conformal Anomaly
Detection, 2015. docs/guarantees.md says what is guaranteed, and when it is not.
"""

from __future__ import annotations

import copy
import json
import math
import os
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline

from typica import store
from typica.arrays import to_numpy
from typica.errors import CalibrationWarning, InputError
from typica.exact import json_number
from typica.fdr import benjamini_hochberg, check_share, storey
from typica.moments import Moments
from typica.pipelines import detector_input, final_detector
from typica.sketch import ScoreSet, check_scores
from typica.store import storable

SMALLEST_GROUP = 100  # calibration inputs that a class should expect to have to be a group of its own
EVERYTHING = "all"  # the one group where classes are not told apart


def guaranteed_rank(n: int, alpha: Any, confidence: Any = None) -> int:
    """Return the k whose k-th smallest of n calibration scores is the threshold; 0 if n is too small.

    Without `confidence` k = floor((n + 1) alpha). With it, k is the largest for which the false-alarm rate, at most
    Beta(k, n + 1 - k) distributed over the calibration draw, is at most alpha with that probability:
    P(Beta(k, n + 1 - k) <= alpha) = P(Binomial(n, alpha) >= k) >= confidence.

    >>> guaranteed_rank(1000, 0.05), guaranteed_rank(1000, 0.05, confidence=0.99)
    (50, 35)
    """
    share = check_share(alpha, "alpha", "guaranteed_rank", zero=True)
    if confidence is None:
        return math.floor((n + 1) * share)
    wanted = float(check_share(confidence, "confidence", "guaranteed_rank"))
    good, bad = 0, n + 1
    while bad - good > 1:
        k = (good + bad) // 2
        good, bad = (k, bad) if betainc(k, n + 1 - k, float(share)) >= wanted else (good, k)
    return good


def calibration_size(alpha: Any, confidence: Any = None) -> int:
    """Return how many calibration inputs are needed to reject anything at all at `alpha` with `confidence`.

    >>> calibration_size(0.05), calibration_size(0.05, confidence=0.99)
    (19, 90)
    """
    share = check_share(alpha, "alpha", "calibration_size")
    if confidence is None:
        return math.ceil(1 / share) - 1
    wanted = check_share(confidence, "confidence", "calibration_size")
    n = max(1, math.ceil(math.log1p(-wanted) / math.log1p(-share)))
    while not guaranteed_rank(n, share, wanted):
        n += 1
    while n > 1 and guaranteed_rank(n - 1, share, wanted):
        n -= 1
    return n


def pool_rare(classes: Any, counts: Any, n: int, smallest: int = SMALLEST_GROUP) -> dict[Any, str]:
    """Return the group "rare" for each class that can expect fewer than `smallest` of n calibration inputs.

    counts: how often each class occurs in other data, such as the training set. The calibration set itself must not
    decide: whether a class is pooled would then depend on the scores that it is judged by.

    >>> pool_rare(["cat", "dog", "emu"], [600, 390, 10], n=1000)
    {'emu': 'rare'}
    """
    names, numbers = to_numpy(classes).tolist(), to_numpy(counts).astype(np.float64)
    expected = n * numbers / numbers.sum()
    return {name: "rare" for name, number in zip(names, expected, strict=True) if number < smallest}


class Judgement(NamedTuple):
    """Per input: its score, p-value, whether it is typical (p > alpha), and the group it was compared with."""

    scores: NDArray[Any]
    p_values: NDArray[np.float64]
    typical: NDArray[np.bool_]
    groups: list[str]


@storable("conformal_detector")
class ConformalDetector:
    """A fitted detector, or a fitted Pipeline that ends in one, with calibration scores to compare with.

    by_class: compare an input only with calibration inputs of the same predicted class (Mondrian), so that the
    guarantee holds within each predicted class. groups: {class: group} joins classes; others stand alone. None:
    `calibrate` joins the classes that are rare in training, where the detector knows (see `pool_rare`).
    max_scores: keep a sketch of that many numbers a group in place of all scores; p-values then are at most
    error / (n + 1) too large, never too small. Do not refit the detector after calibration.

    >>> import typica
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(300) % 3
    >>> X = rng.random((300, 8)) + 4 * np.eye(3, 8)[y]
    >>> detector = ConformalDetector(typica.CTM().fit(X[:100], y[:100])).calibrate(X[100:299])
    >>> detector.p_values(np.vstack([X[299], -X[299]])).round(3)
    array([0.36 , 0.005])
    >>> detector.predict(np.vstack([X[299], -X[299]]), alpha=0.05)
    array([ 1, -1])
    """

    def __init__(
        self,
        detector: Any,
        *,
        by_class: bool = False,
        groups: Mapping[Any, str] | None = None,
        max_scores: int | None = None,
    ) -> None:
        final_detector(detector, "ConformalDetector")
        if groups is not None and not by_class:
            raise InputError("ConformalDetector: groups without by_class; pass by_class=True as well.")
        ScoreSet(max_scores)  # says what is wrong with it
        self.detector = detector
        self.by_class = by_class
        self.groups = groups
        self.max_scores = max_scores
        self._taxonomy: dict[str, str] | None = None
        self._sets: dict[str, ScoreSet] = {}

    def calibrate(self, X: Any, predicted: Any = None) -> Self:
        """Take the scores of held-out in-distribution inputs as those to compare with, in place of earlier ones.

        predicted: the class that the classifier predicts for each row, where that is not `detector.classify(X)`.
        """
        scores, classes = self._scored(X, predicted, "calibrate")
        self._taxonomy, self._sets = self._fixed_taxonomy(len(scores)), {}
        return self._add(scores, classes)

    def partial_calibrate(self, X: Any, predicted: Any = None) -> Self:
        """Take in one more batch. As the length of a stream is not known, only `groups` says what is joined."""
        scores, classes = self._scored(X, predicted, "partial_calibrate")
        if self._taxonomy is None:
            self._taxonomy = self._fixed_taxonomy(None)
        return self._add(scores, classes)

    def merge(self, other: ConformalDetector) -> Self:
        """Take in the calibration scores of `other`, made with an equal detector; `other` stays as it is."""
        where = "ConformalDetector.merge"
        if not isinstance(other, ConformalDetector) or other is self:
            raise InputError(f"{where}: got {type(other).__name__}; pass another ConformalDetector.")
        theirs = other._calibrated(where)
        ours = self._taxonomy if self._sets else other._taxonomy
        if (self.by_class, self.max_scores, ours) != (other.by_class, other.max_scores, other._taxonomy):
            raise InputError(f"{where}: by_class, groups or max_scores differ; make both with the same.")
        if self.detector is not other.detector and fingerprint(self.detector) != fingerprint(other.detector):
            raise InputError(f"{where}: the two detectors are not equal; calibrate copies of one fitted detector.")
        self._taxonomy = ours
        for group, scores in theirs.items():
            self._sets.setdefault(group, ScoreSet(self.max_scores)).merge(scores)
        return self

    @property
    def n(self) -> int:
        """The number of calibration inputs."""
        return sum(scores.n for scores in self._sets.values())

    @property
    def sets(self) -> dict[str, ScoreSet]:
        """The calibration scores of each group."""
        return self._calibrated("ConformalDetector.sets")

    def p_values(
        self, X: Any, randomised: bool = False, seed: Any = None, predicted: Any = None
    ) -> NDArray[np.float64]:
        """Return the p-value of each row: how typical it is, 1 / (n + 1) at the least.

        randomised: (#{<} + U (1 + #{=})) / (n + 1) with U uniform from `seed`, so that P(p <= alpha) = alpha
        exactly, ties or not.
        """
        scores, classes = self._scored(X, predicted, "p_values")
        return self._p_values(scores, classes, np.random.default_rng(seed) if randomised else None)

    def predict(
        self, X: Any, alpha: Any = 0.05, confidence: Any = None, predicted: Any = None
    ) -> NDArray[np.int64]:
        """Return +1 where p > alpha and -1 where not: row for row what `detector.calibrate(tpr=1 - alpha)` decides.

        confidence: with that probability over the calibration draw, the false-alarm rate of this very detector is
        at most alpha. With `by_class` both hold within each group.
        """
        scores, classes = self._scored(X, predicted, "predict")
        return np.where(self._typical(scores, classes, self._limits(alpha, confidence, "predict")), 1, -1)

    def judge(self, X: Any, alpha: Any = 0.05, confidence: Any = None, predicted: Any = None) -> Judgement:
        """Return score, p-value, verdict and group of each row in one pass; see `predict`."""
        scores, classes = self._scored(X, predicted, "judge")
        limits = self._limits(alpha, confidence, "judge")
        groups = [""] * len(scores)
        for group, rows in self._rows(len(scores), classes):
            for row in rows.nonzero()[0]:
                groups[row] = group
        return Judgement(
            scores, self._p_values(scores, classes, None), self._typical(scores, classes, limits), groups
        )

    def discoveries(
        self, X: Any, fdr: Any = 0.1, method: str = "bh", lam: Any = 0.5, predicted: Any = None
    ) -> NDArray[np.bool_]:
        """Return True for the rows that are out of distribution, of which a share `fdr` may be wrong on average.

        method: "bh" or "storey" (with `lam`), see `typica.fdr`; needs all calibration scores, no sketch. The
        calibration inputs and the in-distribution rows of X must be independent and alike distributed.
        """
        where = "ConformalDetector.discoveries"
        sets = self._calibrated(where)
        if method not in ("bh", "storey"):
            raise InputError(f"{where}: method={method!r}; pass 'bh' or 'storey'.")
        if not all(scores.exact for scores in sets.values()):
            raise InputError(f"{where}: a sketch does not keep what the guarantee needs; calibrate without max_scores.")
        scores, classes = self._scored(X, predicted, "discoveries")
        p = self._p_values(scores, classes, None)
        if method == "bh":
            return benjamini_hochberg(p, fdr)
        if self.by_class:
            raise InputError(f"{where}: 'storey' needs one calibration set for all; use 'bh' or by_class=False.")
        steps = self.n + 1
        share = check_share(lam, "lam", where)
        return storey(p, fdr, f"{max(1, math.floor(share * steps))}/{steps}")

    def summary(self, alpha: Any = 0.05, confidence: Any = None) -> dict[str, Any]:
        """Return as plain JSON types what the calibration amounts to: per group n, k, threshold and sketch error."""
        share = check_share(alpha, "alpha", "ConformalDetector.summary", zero=True)
        limits = self._limits(alpha, confidence, "summary")
        groups = {
            group: {
                "n": scores.n,
                "k": guaranteed_rank(scores.n, share, confidence),
                "threshold": json_number(limits[group]),
                "error": scores.error,
            }
            for group, scores in sorted(self._sets.items())
        }
        level = None if confidence is None else float(check_share(confidence, "confidence", "summary"))
        kind = final_detector(self.detector, "summary").kind
        return {"detector": kind, "n": self.n, "alpha": float(share), "confidence": level, "groups": groups}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write detector and calibration to one safetensors file; `typica.load` reads it back."""
        self._calibrated("ConformalDetector.save")
        store.save(self, path)

    # How it is done

    def _scored(self, X: Any, predicted: Any, what: str) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """Return the scores of X and, with by_class, the predicted class of each row."""
        where = f"ConformalDetector.{what}"
        final = final_detector(self.detector, where)
        Z = detector_input(self.detector, X)
        scores = check_scores(final.score_samples(Z), where)
        if not self.by_class:
            if predicted is not None:
                raise InputError(f"{where}: predicted classes are for by_class=True; leave them out.")
            return scores, None
        classes = final.classify(Z) if predicted is None else to_numpy(predicted)
        if classes.shape != scores.shape:
            raise InputError(
                f"{where}: predicted classes of shape {classes.shape} for {len(scores)} rows; pass one a row."
            )
        return scores, classes

    def _fixed_taxonomy(self, n: int | None) -> dict[str, str]:
        groups = self.groups
        moments = getattr(final_detector(self.detector, "ConformalDetector"), "moments_", None)
        if groups is None and self.by_class and n is not None and isinstance(moments, Moments):
            groups = pool_rare(moments.classes, moments.counts, n)
        return {str(name): str(group) for name, group in (groups or {}).items()}

    def _rows(self, n: int, classes: NDArray[Any] | None) -> Iterator[tuple[str, NDArray[np.bool_]]]:
        """Yield each group that occurs, and which rows belong to it."""
        if classes is None:
            yield EVERYTHING, np.ones(n, dtype=np.bool_)
            return
        names, codes = np.unique(classes, return_inverse=True)
        taxonomy = self._taxonomy or {}
        group_of = np.array([taxonomy.get(str(name), str(name)) for name in names])
        for group in np.unique(group_of):
            yield str(group), (group_of == group)[codes]

    def _add(self, scores: NDArray[Any], classes: NDArray[Any] | None) -> Self:
        for group, rows in self._rows(len(scores), classes):
            self._sets.setdefault(group, ScoreSet(self.max_scores)).add(scores[rows])
        return self

    def _calibrated(self, where: str) -> dict[str, ScoreSet]:
        if not self._sets:
            raise NotFittedError(f"{where}: there are no calibration scores yet; call calibrate with held-out inputs.")
        return self._sets

    def _p_values(
        self, scores: NDArray[Any], classes: NDArray[Any] | None, rng: np.random.Generator | None
    ) -> NDArray[np.float64]:
        sets = self._calibrated("ConformalDetector.p_values")
        if classes is None:
            return p_values(scores, sets[EVERYTHING], rng)
        p = np.empty(len(scores))
        for group, rows in self._rows(len(scores), classes):
            # A group without calibration inputs has p = 1: nothing speaks against its members.
            p[rows] = p_values(scores[rows], sets.get(group, ScoreSet()), rng)
        return p

    def _limits(self, alpha: Any, confidence: Any, what: str) -> dict[str, float]:
        """Return the threshold of each group; refuse or warn where it cannot reject anything."""
        where = f"ConformalDetector.{what}"
        share = check_share(alpha, "alpha", where, zero=True)
        ranks = {
            group: guaranteed_rank(scores.n, share, confidence) for group, scores in self._calibrated(where).items()
        }
        helpless = [group for group, k in ranks.items() if k == 0]
        if helpless and share:
            group = min(helpless, key=lambda name: self._sets[name].n)
            found = f"{self._sets[group].n} calibration inputs" + (f" of {group!r}" if self.by_class else "")
            need = f"Pass at least {calibration_size(share, confidence)}" + (" a group" if self.by_class else "")
            if confidence is not None:
                raise InputError(
                    f"{where}: {found} are too few for alpha={alpha} with confidence={confidence}. "
                    f"{need}, or a larger alpha."
                )
            warnings.warn(
                f"{where}: {found} are too few to reject anything at alpha={alpha}. {need}, or a larger alpha.",
                CalibrationWarning,
                stacklevel=3,
            )
        return {group: self._sets[group].threshold(k) for group, k in ranks.items()}

    def _typical(
        self, scores: NDArray[Any], classes: NDArray[Any] | None, limits: dict[str, float]
    ) -> NDArray[np.bool_]:
        if classes is None:
            return np.asarray(scores >= limits[EVERYTHING])
        typical = np.ones(len(scores), dtype=np.bool_)
        for group, rows in self._rows(len(scores), classes):
            typical[rows] = scores[rows] >= limits.get(group, -math.inf)
        return typical

    def state(self) -> dict[str, Any]:
        """Return what is to be stored."""
        return {
            "detector": self.detector,
            "by_class": self.by_class,
            "max_scores": self.max_scores,
            "taxonomy": None if self._taxonomy is None else list(map(list, self._taxonomy.items())),
            "sets": [[group, scores] for group, scores in self._sets.items()],
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> ConformalDetector:
        """Rebuild the detector from what was stored."""
        made = cls(state["detector"], by_class=state["by_class"], max_scores=state["max_scores"])
        made._taxonomy = None if state["taxonomy"] is None else {name: group for name, group in state["taxonomy"]}
        made._sets = {group: scores for group, scores in state["sets"]}
        return made


def p_values(
    scores: Any, calibration: Any, rng: np.random.Generator | None = None
) -> NDArray[np.float64]:
    """Return the conformal p-values of scores against calibration scores, an array or a `ScoreSet`.

    rng: randomise, so that ties cost nothing; see `ConformalDetector.p_values`.

    >>> p_values([0.5, 2.0, 9.0], [1.0, 2.0, 3.0])
    array([0.25, 0.75, 1.  ])
    """
    where = "p_values"
    known = calibration if isinstance(calibration, ScoreSet) else ScoreSet().add(calibration, where)
    checked = check_scores(scores, where)
    at_most = known.count(checked) + 1
    if rng is None:
        return np.asarray(at_most / (known.n + 1))
    below = known.count(checked, side="left")
    return np.asarray((below + (1 - rng.random(len(checked))) * (at_most - below)) / (known.n + 1))


def fingerprint(estimator: Any) -> str:
    """Return the SHA-256 of all that makes the scores of a fitted detector or Pipeline; thresholds are left out.

    >>> import typica
    >>> one, other = (typica.CTM().fit(np.eye(3) + shift, [0, 1, 2]) for shift in (0.0, 0.1))
    >>> fingerprint(one) == fingerprint(one), fingerprint(one) == fingerprint(other)
    (True, False)
    """
    final = copy.copy(final_detector(estimator, "fingerprint"))
    final._learnt_more()
    whole = Pipeline([*estimator.steps[:-1], (estimator.steps[-1][0], final)]) if final is not estimator and isinstance(estimator, Pipeline) else final
    tensors: dict[str, NDArray[Any]] = {}
    content = store._encode(whole, "", tensors)
    return store._digest(json.dumps(content, sort_keys=True), tensors)
