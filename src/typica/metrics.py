"""How well scores tell in-distribution (ID) inputs from out-of-distribution (OOD) ones.

ID is the positive class, a higher score is more typical, and an input is accepted where score >=
threshold. One sort of the scores serves every metric: all they need is how many ID and OOD scores
lie below each distinct score. A bootstrap resample changes these counts only. `aurc` tells how well
scores rank the network's own mistakes.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from typica.arrays import AnyArray, Array, to_numpy
from typica.as_json import json_number
from typica.calibration import false_alarm_rate
from typica.cards import card
from typica.errors import InputError, border
from typica.written_numbers import exact

CONVENTIONS: Final[Mapping[str, str]] = {
    "first": "The threshold is the largest that accepts at least tpr of the ID scores, and FPR the "
    "share of OOD scores that it accepts.",
    "interpolated": "FPR is linearly interpolated on the ROC curve at exactly tpr, with the "
    "threshold of 'first'; where several points have exactly tpr, both are those of the largest "
    "FPR, as in numpy.interp.",
    "rank": "The threshold is sorted_id[round((1 - tpr) * n)], ascending, halves rounded to even, "
    "at most the last, and FPR the share of OOD scores that it accepts.",
}


def fpr_defined(tpr: float, convention: str) -> str:
    """Say in words what the metric FPR is at `tpr`, by one of the `CONVENTIONS`.

    >>> fpr_defined(0.95, "first")[:72]
    "FPR: share of OOD inputs accepted when 95 % of ID are kept (convention '"
    """
    kept = f"share of OOD inputs accepted when {100 * tpr:g} % of ID are kept"
    return f"FPR: {kept} (convention '{convention}': {CONVENTIONS[convention]})"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of `evaluate`: its field of `Result`, its heading, and which way is better.

    >>> METRICS["fpr"].label(0.95), METRICS["auroc"].label()
    ('FPR95 ↓', 'AUROC ↑')
    """

    name: str
    heading: str
    better: Literal["higher", "lower"]

    def title(self, tpr: float | None = None) -> str:
        """Return the heading of AUROC or its like; of FPR with the share of ID kept, if given."""
        if self.name != "fpr" or tpr is None:
            return self.heading
        return f"{self.heading}{100 * tpr:g}"

    def label(self, tpr: float | None = None) -> str:
        """Return the title of AUROC or its like with an arrow that points to the better side."""
        arrow = "↑" if self.better == "higher" else "↓"
        return f"{self.title(tpr)} {arrow}"


METRICS: Final[Mapping[str, Metric]] = {  # every metric of a Result, by the name of its field
    metric.name: metric
    for metric in (
        Metric("fpr", "FPR", "lower"),
        Metric("auroc", "AUROC", "higher"),
        Metric("aupr_in", "AUPR-in", "higher"),
        Metric("aupr_out", "AUPR-out", "higher"),
        Metric("detection_error", "Det. error", "lower"),
    )
}
_MEASURES: Final = (*METRICS, "threshold")
_BLOCK: Final = 1 << 15  # values whose counts stay in the cache


@dataclass(frozen=True, slots=True)
class Result:
    """The metrics of one ID set against one OOD set; every share is a fraction of 1.

    Attributes
    ----------
    fpr : share of OOD accepted where ``tpr`` of ID is (see `CONVENTIONS`).
    auroc : P(id > ood) + P(id == ood) / 2.
    aupr_in, aupr_out : average precision, Σ (R_k − R_{k−1}) P_k, with ID or OOD as positive class.
    detection_error : min over all thresholds of (share of ID rejected + share of OOD accepted) / 2.
    threshold : the score at or above which an input is accepted; infinite where that score is.
    n_id, n_ood, tpr, convention : the numbers of scores, and what was asked for.
    intervals : None, or (low, high) for each of the metrics and the threshold.
    """

    fpr: float
    auroc: float
    aupr_in: float
    aupr_out: float
    detection_error: float
    threshold: float
    n_id: int
    n_ood: int
    tpr: float
    convention: str
    intervals: Mapping[str, tuple[float, float]] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Give the result as plain JSON types; infinity, which JSON lacks, as "inf" or "-inf".

        >>> evaluate([2.0, 3.0], [1.0]).to_dict()["threshold"]
        2.0
        """
        record: dict[str, Any] = {"n": self.n_ood}
        record |= {name: json_number(getattr(self, name)) for name in _MEASURES}
        if self.intervals is not None:
            record["intervals"] = {
                name: [json_number(low), json_number(high)]
                for name, (low, high) in self.intervals.items()
            }
        return record

    def _repr_html_(self) -> str:
        """Return a card for notebooks: the metrics in percent, with their intervals if any."""
        rows: list[list[object]] = []
        for name, metric in METRICS.items():
            row: list[object] = [metric.label(self.tpr), 100 * getattr(self, name)]
            if self.intervals is not None:
                low, high = self.intervals[name]
                row.append(f"{100 * low:.4g} to {100 * high:.4g}")
            rows.append(row)
        title = f"{self.n_id} ID and {self.n_ood} OOD inputs, {100 * self.tpr:g} % of ID kept"
        note = f"in percent; accepted at or above a score of {self.threshold:.4g}"
        return card(title, rows, note=note)


@dataclass(frozen=True, slots=True, repr=False)
class Evaluation:
    """The metrics of one detector on one ID set and any number of OOD sets; every command has them.

    >>> evaluation = evaluate_many("ctm", [2.0, 3.0], {"near": [2.5, 0.0], "far": [1.0]})
    >>> evaluation
    ctm: 2 ID inputs, 2 OOD sets, mean FPR95 25.00 %, AUROC 87.50 %
    >>> evaluation.average["fpr"]
    0.25
    """

    detector: str
    tpr: float
    n_id: int
    ood: Mapping[str, Result]
    convention: str = "first"

    def __post_init__(self) -> None:
        found = {(result.tpr, result.n_id, result.convention) for result in self.ood.values()}
        if found != {expected := (self.tpr, self.n_id, self.convention)}:
            what = f"Evaluation: ood has results of (tpr, n_id, convention) {sorted(found)}"
            raise InputError(f"{what}; pass at least one, all of {expected}.")

    @property
    def average(self) -> dict[str, float]:
        """The unweighted mean of each metric over the OOD sets."""
        average = {}
        for name in METRICS:
            values = [getattr(result, name) for result in self.ood.values()]
            average[name] = math.fsum(values) / len(values)
        return average

    def to_dict(self) -> dict[str, Any]:
        """Give the evaluation as plain JSON types; see `Result.to_dict`."""
        return {
            "detector": self.detector,
            "tpr": self.tpr,
            "convention": self.convention,
            "id": {"n": self.n_id},
            "ood": {name: result.to_dict() for name, result in self.ood.items()},
            "average": self.average,
        }

    def __repr__(self) -> str:
        sets = f"{len(self.ood)} OOD {'set' if len(self.ood) == 1 else 'sets'}"
        average = self.average
        fpr = f"{METRICS['fpr'].title(self.tpr)} {100 * average['fpr']:.2f} %"
        auroc = f"AUROC {100 * average['auroc']:.2f} %"
        return f"{self.detector}: {self.n_id} ID inputs, {sets}, mean {fpr}, {auroc}"

    def _repr_html_(self) -> str:
        """Return a table for notebooks, in percent: one row per OOD set, and the average."""
        rows: list[list[object]] = []
        for name, result in self.ood.items():
            rows.append([name, *(100 * getattr(result, metric) for metric in METRICS)])
        rows.append(["average", *(100 * self.average[metric] for metric in METRICS)])
        title = f"{self.detector}: {self.n_id} ID inputs, {100 * self.tpr:g} % kept"
        return card(title, rows, ["OOD set", *METRICS], note="in percent")

    def to_json(self, indent: int | None = 2) -> str:
        """Give `to_dict` as JSON text."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)


@border
def evaluate(
    id_scores: Array,
    ood_scores: Array,
    tpr: Any = None,
    *,
    alpha: Any = None,
    convention: str = "first",
    bootstrap: int = 0,
    confidence: float = 0.95,
    seed: int = 0,
) -> Result:
    """Measure how well scores tell ID from OOD.

    Parameters
    ----------
    id_scores, ood_scores : (n_id,) and (n_ood,) array-likes or tensors, higher = more typical.
        Infinity is a legal score, NaN is not. Integers and longer floats are taken as float64.
    alpha : share of ID that may be rejected, 0.05 if neither it nor tpr is given.
    tpr : share of ID to accept, 1 - alpha, as the decimal that it prints as: 0.9 is nine tenths.
    convention : what "FPR at tpr" means, one of `CONVENTIONS`.
    bootstrap : number of resamples, 0 for no intervals; ID and OOD are drawn apart, with
        replacement.
    confidence : share of the resampled values in an interval; as many are left out below as above.
    seed : the same seed gives the same intervals.

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
    tpr: Any = None,
    *,
    alpha: Any = None,
    **options: Any,
) -> Evaluation:
    """Measure one detector on several OOD sets, {name: scores}, with the options of `evaluate`.

    >>> evaluate_many("ctm", [2.0, 3.0], {"far": [1.0]}).ood["far"].auroc
    1.0
    """
    checked = _MetricOptions(1 - false_alarm_rate(alpha, tpr), **options)
    if not isinstance(ood_scores, Mapping) or not ood_scores:
        raise InputError("ood_scores holds no named OOD set; pass {name: scores}.")
    sorted_id = _sorted_scores(id_scores, "id_scores")
    sorted_ood = {
        name: _sorted_scores(s, f"ood_scores[{name!r}]") for name, s in ood_scores.items()
    }
    results = {name: checked.measure(sorted_id, scores) for name, scores in sorted_ood.items()}
    return Evaluation(detector, float(checked.tpr), len(sorted_id), results, checked.convention)


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
        raise InputError(
            f"ood_scorer: metric {metric!r} is unknown; choose one of {', '.join(METRICS)}."
        )
    sign = 1.0 if METRICS[metric].better == "higher" else -1.0

    def scorer(estimator: Any, X: Any, y: Any = None) -> float:
        known, strange = estimator.score_samples(X), estimator.score_samples(ood)
        result = evaluate(to_numpy(known), to_numpy(strange))
        return sign * float(getattr(result, metric))

    return scorer


def rate_interval(hits: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the interval of Clopper and Pearson 1934 for the rate behind `hits` of n inputs.

    >>> [round(end, 4) for end in rate_interval(5, 100)]
    [0.0164, 0.1128]
    >>> rate_interval(0, 0)
    (0.0, 1.0)
    """
    tail = (1 - confidence) / 2
    low = float(betaincinv(hits, n - hits + 1, tail)) if hits else 0.0
    high = float(betaincinv(hits + 1, n - hits, 1 - tail)) if hits < n else 1.0
    return low, high


@dataclass(frozen=True, slots=True)
class _MetricOptions:
    """How `metrics` measures: the checked options of `evaluate` and `evaluate_many`."""

    tpr: Fraction
    convention: str = "first"
    bootstrap: int = 0
    confidence: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        if self.convention not in CONVENTIONS:
            raise InputError(f"convention={self.convention!r}; pass one of {[*CONVENTIONS]}.")
        if not 0 < exact(self.confidence) < 1:
            raise InputError(f"confidence={self.confidence!r}; pass 0 < confidence < 1.")
        for name, value in {"bootstrap": self.bootstrap, "seed": self.seed}.items():
            if not isinstance(value, int | np.integer) or value < 0:
                raise InputError(f"{name}={value!r}; pass an integer >= 0.")

    def measure(self, sorted_id: AnyArray, sorted_ood: AnyArray) -> Result:
        """Return the metrics of sorted ID scores against sorted OOD scores."""
        counts = _Counts.of(sorted_id, sorted_ood)
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

    def _intervals(self, counts: "_Counts", tpr: Fraction) -> dict[str, tuple[float, float]]:
        rng = np.random.default_rng(self.seed)
        resamples = (counts.resampled(rng) for _ in range(self.bootstrap))
        draws = [resample.measures(tpr, self.convention) for resample in resamples]
        # Order statistics, not interpolated quantiles: a threshold may be infinite.
        cut = math.floor((1 - exact(self.confidence)) / 2 * self.bootstrap)
        intervals = {}
        for name in _MEASURES:
            values = sorted(draw[name] for draw in draws)
            intervals[name] = (values[cut], values[-1 - cut])
        return intervals


@dataclass(frozen=True, slots=True)
class _Counts:
    """The k distinct scores, ascending, and how many ID and OOD scores lie below each.

    Entry k of the counts, behind the last score, counts all.
    """

    values: AnyArray
    id_below: NDArray[np.int64]
    ood_below: NDArray[np.int64]

    @classmethod
    def of(cls, sorted_id: AnyArray, sorted_ood: AnyArray) -> "_Counts":
        """Return the counts of ID and OOD scores from which metrics are made."""
        # A stable sort finds the two ascending runs and merges them in linear time.
        both = np.concatenate([sorted_id, sorted_ood])
        order = np.argsort(both, kind="stable")
        scores = both[order]
        below = np.flatnonzero(np.concatenate([[True], scores[1:] != scores[:-1], [True]]))
        id_below = np.zeros(len(scores) + 1, dtype=np.int64)
        id_below[1:] = order < len(sorted_id)
        np.cumsum(id_below, out=id_below)
        if len(below) < len(id_below):
            scores, id_below = scores[below[:-1]], id_below[below]
        return cls(scores, id_below, below - id_below)

    def resampled(self, rng: np.random.Generator) -> "_Counts":
        """Return the counts of a bootstrap resample of the ID and OOD scores."""
        below = []
        for counts in (self.id_below, self.ood_below):
            n = int(counts[-1])
            draws_of_rank = np.bincount(rng.integers(n, size=n), minlength=n)
            below.append(np.append(0, np.cumsum(draws_of_rank))[counts])
        id_below, ood_below = below
        drawn = np.diff(id_below + ood_below, append=-1) != 0
        return _Counts(self.values[drawn[:-1]], id_below[drawn], ood_below[drawn])

    def measures(self, tpr: Fraction, convention: str) -> dict[str, Any]:
        """Give every metric and the threshold; all counts are integers, so that ties are exact."""
        n_id, n_ood = int(self.id_below[-1]), int(self.ood_below[-1])
        wins, least_error, sum_in, sum_out = 0, 0, 0.0, 0.0
        for start in range(0, len(self.values), _BLOCK):
            id_below, ood_below = (
                b[start : start + _BLOCK + 1] for b in (self.id_below, self.ood_below)
            )
            below, id_here, ood_here = id_below + ood_below, np.diff(id_below), np.diff(ood_below)
            # In halves: an ID score wins 2 against each lower OOD score, 1 against each equal one.
            wins += int(np.dot(id_here, ood_below[:-1] + ood_below[1:]))
            least_error = min(least_error, int((n_ood * id_below - n_id * ood_below).min()))
            sum_in += float(
                np.sum(id_here * ((n_id - id_below[:-1]) / (n_id + n_ood - below[:-1])))
            )
            sum_out += float(np.sum(ood_here * (ood_below[1:] / below[1:])))
        pairs = n_id * n_ood
        return self._operating_point(tpr, convention) | {
            "auroc": wins / (2 * pairs),
            "aupr_in": sum_in / n_id,
            "aupr_out": sum_out / n_ood,
            "detection_error": (pairs + least_error) / (2 * pairs),
        }

    def _operating_point(self, tpr: Fraction, convention: str) -> dict[str, Any]:
        n_id, n_ood = int(self.id_below[-1]), int(self.ood_below[-1])
        to_reject = (1 - tpr) * n_id
        rank = min(round(to_reject), n_id - 1) if convention == "rank" else math.floor(to_reject)
        # The value at that rank of ID.
        at = int(np.searchsorted(self.id_below, rank, side="right")) - 1
        part = Fraction(0)
        if convention == "interpolated":
            id_below, id_up_to = self.id_below[at : at + 2].tolist()
            part = (to_reject - id_below) / (id_up_to - id_below)
            if part == 0:
                at = int(np.searchsorted(self.id_below, rank, side="left"))
        ood_below, ood_up_to = self.ood_below[at : at + 2].tolist()
        accepted = n_ood - ood_below - part * (ood_up_to - ood_below)
        return {"fpr": float(accepted / n_ood), "threshold": float(self.values[at])}


def _sorted_scores(scores: Array, what: str) -> AnyArray:
    """Return the scores that metrics are taken of, sorted, as float16, float32 or float64."""
    if hasattr(scores, "detach"):
        scores = scores.detach().cpu()
        if str(scores.dtype) == "torch.bfloat16":  # which NumPy lacks
            scores = scores.float()
    try:
        array = np.asarray(scores)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{what} is not an array ({error}); pass a 1-D array of numbers."
        ) from error
    if array.dtype.kind not in "fiub":
        raise InputError(f"{what} has dtype {array.dtype}; pass real numbers.")
    if array.ndim != 1 or array.size == 0:
        raise InputError(f"{what} has shape {array.shape}; pass a 1-D array of one or more scores.")
    # Other types hold numbers that are not Python floats, so the threshold would not be exact.
    array = np.sort(array if array.dtype.char in "efd" else array.astype(np.float64))
    if np.isnan(array[-1]):  # NaN sorts last
        raise InputError(
            f"{what} has {np.isnan(array).sum()} NaN of {array.size} scores; fix or drop them."
        )
    return array


@border
def aurc(scores: Any, wrong: Any) -> float:
    """Return the area under the risk-coverage curve (AURC) of scores (n,), higher = more trusted.

    wrong: (n,), whether each was a mistake of the network. Inputs are accepted from the highest
    score down. After i of n the coverage is i/n and the risk the share of mistakes among the i;
    AURC is the mean of the risk over i = 1 ... n. Lower is better. Equal scores are accepted in
    random order, and AURC is its expectation over these orders, exactly.

    Geifman, Uziel, El-Yaniv: Bias-Reduced Uncertainty Estimation for Deep Neural Classifiers, ICLR
    2019.

    >>> aurc([0.9, 0.8, 0.1], [False, False, True]) == (0 + 0 + 1 / 3) / 3
    True
    >>> aurc([0.5, 0.5], [False, True])
    0.5
    """
    scores, wrong = _checked_mistakes(scores, wrong)
    order = np.argsort(-scores, kind="stable")
    ranked, mistakes = scores[order], wrong[order]
    starts = np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]]))
    sizes = np.diff(np.append(starts, len(ranked)))
    # Of a tied group with w mistakes among g, the first j hold w j / g of them on average.
    share = np.repeat(np.add.reduceat(mistakes, starts) / sizes, sizes)
    before = np.repeat(np.append(0, np.cumsum(mistakes))[starts], sizes)
    within = np.arange(1, len(ranked) + 1) - np.repeat(starts, sizes)
    return float(np.mean((before + share * within) / np.arange(1, len(ranked) + 1)))


@border
def e_aurc(scores: Any, wrong: Any) -> float:
    """Return `aurc` minus that of a score that ranks all mistakes last, the least there is.

    >>> e_aurc([0.9, 0.8, 0.1], [False, False, True])
    0.0
    """
    scores, wrong = _checked_mistakes(scores, wrong)
    return aurc(scores, wrong) - aurc(-wrong, wrong)


def _checked_mistakes(scores: Any, wrong: Any) -> tuple[AnyArray, NDArray[np.float64]]:
    scores = np.asarray(scores)
    wrong = np.asarray(wrong)
    if scores.ndim != 1 or scores.shape != wrong.shape or not len(scores):
        found = f"scores of shape {scores.shape}, mistakes of {wrong.shape}"
        raise InputError(f"{found}; pass one of each per row.")
    if scores.dtype.kind == "f" and np.isnan(scores).any():
        raise InputError(f"{int(np.isnan(scores).sum())} of the scores are NaN; fix or drop them.")
    if not np.isin(wrong, (0, 1)).all():
        raise InputError("mistakes must be True or False; pass prediction != label.")
    return scores, wrong.astype(np.float64)
