"""Measure how well scores tell ID inputs from OOD ones: `evaluate`, and for several OOD sets."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from typica.arrays import AnyArray, Array, to_numpy
from typica.calibration import false_alarm_rate
from typica.checks import count, share
from typica.errors import InputError, border, listed
from typica.metrics._counts import Counts
from typica.metrics._names import CONVENTIONS, METRICS
from typica.metrics._result import MEASURES, Evaluation, Result
from typica.metrics._scores import checked_scores
from typica.written_numbers import Level, exact


@border
def evaluate(
    id_scores: Array,
    ood_scores: Array,
    tpr: Level | None = None,
    *,
    alpha: Level | None = None,
    convention: str = "first",
    bootstrap: int = 0,
    confidence: float = 0.95,
    seed: int = 0,
) -> Result:
    """Measure how well scores tell ID from OOD.

    Parameters
    ----------
    id_scores, ood_scores
        (n_id,) and (n_ood,) array-likes or tensors, higher = more typical. Infinity is a legal
        score, NaN is not. Integers and longer floats are converted to float64.
    tpr
        The share of ID to accept, 1 - alpha, as the decimal that it prints as: 0.9 is nine tenths.
    alpha
        The share of ID that may be rejected, 0.05 if neither it nor tpr is given.
    convention
        What "FPR at tpr" means, one of `CONVENTIONS`.
    bootstrap
        The number of resamples, 0 for no intervals; ID and OOD are drawn separately, with
        replacement.
    confidence
        The share of the resampled values in an interval; as many are left out below as above.
    seed
        The same seed gives the same intervals.

    >>> result = evaluate([0.9, 0.8, 0.7, 0.2], [0.3, 0.1], tpr=0.75)
    >>> result.threshold, result.fpr, result.auroc
    (0.7, 0.0, 0.875)
    """
    _check_scores_given(id_scores, ood_scores)
    kept = 1 - false_alarm_rate(alpha, tpr)
    options = _MetricOptions(kept, convention, bootstrap, confidence, seed)
    sorted_id = _sorted_scores(id_scores, "id_scores")
    return options.measure(sorted_id, _sorted_scores(ood_scores, "ood_scores"))


def _check_scores_given(id_scores: Array, ood_scores: Array) -> None:
    """Say what to pass in place of a detector, or of several OOD sets at once."""
    if hasattr(id_scores, "score_samples"):
        raise InputError(
            "takes scores, not a detector; pass detector.score_samples(X) and "
            "detector.score_samples(Z); for several OOD sets use typica.metrics.evaluate_many."
        )
    if isinstance(ood_scores, Mapping):
        raise InputError(
            "takes one OOD set; for several use typica.metrics.evaluate_many(name, id_scores, "
            "{set: scores})."
        )


@border
def evaluate_many(
    detector: str,
    id_scores: Array,
    ood_scores: Mapping[str, Array],
    tpr: Level | None = None,
    *,
    alpha: Level | None = None,
    convention: str = "first",
    bootstrap: int = 0,
    confidence: float = 0.95,
    seed: int = 0,
) -> Evaluation:
    """Measure one detector on several OOD sets.

    Parameters
    ----------
    detector
        Its name, for the result.
    id_scores
        Scores (n_id,), higher = more typical.
    ood_scores
        {name of the set: scores}.
    tpr, alpha, convention, bootstrap, confidence, seed
        As `evaluate` takes them.

    >>> evaluate_many("ctm", [2.0, 3.0], {"far": [1.0]}).ood["far"].auroc
    1.0
    """
    kept = 1 - false_alarm_rate(alpha, tpr)
    options = _MetricOptions(kept, convention, bootstrap, confidence, seed)
    if not isinstance(ood_scores, Mapping) or not ood_scores:
        raise InputError("ood_scores holds no named OOD set; pass {name: scores}.")
    sorted_id = _sorted_scores(id_scores, "id_scores")
    sorted_ood = {
        name: _sorted_scores(s, f"ood_scores[{name!r}]") for name, s in ood_scores.items()
    }
    results = {name: options.measure(sorted_id, scores) for name, scores in sorted_ood.items()}
    return Evaluation(detector, float(kept), len(sorted_id), results, convention)


@border
def ood_scorer(ood: Any, metric: str = "auroc") -> Callable[..., float]:
    """Return a scorer for `GridSearchCV`: how well a detector tells the held-out fold from `ood`.

    It maximises AUROC, or another metric. Choose parameters on one set of OOD inputs and report on
    others, or the report will be too good.

    >>> import typica
    >>> from sklearn.model_selection import GridSearchCV
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(200) % 2
    >>> X = rng.normal(size=(200, 4)) + 3 * np.eye(4)[y]
    >>> scorer = ood_scorer(rng.normal(size=(99, 4)))
    >>> search = GridSearchCV(typica.CTM(), {"correct_only": [False]}, scoring=scorer)
    >>> float(search.fit(X, y).best_score_) > 0.9
    True
    """
    if metric not in METRICS:
        raise InputError(f"metric {metric!r} is unknown; choose one of {', '.join(METRICS)}.")
    sign = 1.0 if METRICS[metric].better == "higher" else -1.0

    def scorer(estimator: Any, X: Any, y: Any = None) -> float:
        known, strange = estimator.score_samples(X), estimator.score_samples(ood)
        result = evaluate(to_numpy(known), to_numpy(strange))
        return sign * float(getattr(result, metric))

    return scorer


@dataclass(frozen=True, slots=True)
class _MetricOptions:
    """How `metrics` measures: the checked options of `evaluate` and `evaluate_many`."""

    tpr: Fraction
    convention: str
    bootstrap: int
    confidence: float
    seed: int

    def __post_init__(self) -> None:
        if self.convention not in CONVENTIONS:
            raise InputError(
                f"convention={self.convention!r}; choose one of {listed(CONVENTIONS)}."
            )
        share().check("confidence", self.confidence)
        count(0).check("bootstrap", self.bootstrap)
        count(0).check("seed", self.seed)

    def measure(self, sorted_id: AnyArray, sorted_ood: AnyArray) -> Result:
        """Return the metrics of sorted ID scores against sorted OOD scores."""
        counts = Counts.of(sorted_id, sorted_ood)
        intervals = self._intervals(counts, self.tpr) if self.bootstrap else None
        measures = counts.measures(self.tpr, self.convention)
        sizes = {"n_id": len(sorted_id), "n_ood": len(sorted_ood)}
        return Result(
            **measures,
            **sizes,
            tpr=float(self.tpr),
            convention=self.convention,
            intervals=intervals,
        )

    def _intervals(self, counts: Counts, tpr: Fraction) -> dict[str, tuple[float, float]]:
        rng = np.random.default_rng(self.seed)
        resamples = (counts.resampled(rng) for _ in range(self.bootstrap))
        draws = [resample.measures(tpr, self.convention) for resample in resamples]
        # Order statistics, not interpolated quantiles: a threshold may be infinite.
        cut = math.floor((1 - exact(self.confidence)) / 2 * self.bootstrap)
        intervals = {}
        for name in MEASURES:
            values = sorted(draw[name] for draw in draws)
            intervals[name] = (values[cut], values[-1 - cut])
        return intervals


def _sorted_scores(scores: Array, what: str) -> AnyArray:
    """Return the checked scores in ascending order."""
    return np.sort(checked_scores(scores, what))
