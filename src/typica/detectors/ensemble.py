"""Ensemble: the mean of its members' scores, each as its rank among in-distribution scores.

    score(z) = mean_i F_i(score_i(z))
    F_i = distribution function of member i's scores of in-distribution rows

F rises through the observed scores, of which at most 2,048 order statistics are kept: at each of
them it is the share of scores below plus half the share of equal ones, and linear in between. It
goes on where nothing was observed, because that is where most unknown inputs lie. Below the lowest
score v it falls without bound, as F(v) - 0.45 log(1 + (v - s) / w), w being what lies between the
scores' 5 % quantile and their median: it sets out at the mean slope between these two, and no
member can outweigh the others by its scale alone. Above the highest score V it rises towards 1, as
1 - (1 - F(V)) / (1 + (s - V) / w): being far above all that is known is no reason for more trust.

No out-of-distribution data is used. `fit` takes the ranks among a sample of the training rows,
which a member may remember too well; `calibrate` takes them, and then the threshold, from held-out
rows. As the ranks have seen those rows, the share of new inputs that is kept may fall short of
`tpr` by a fraction of 1 / (held-out rows).

In the manner of Kriegel, Kröger, Schubert, Zimek: Interpreting and Unifying Outlier Scores, SDM
2011, with ranks in place of densities. Higher = more typical. Cost: that of the members.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from typica.arrays import (
    AnyArray,
    Array,
    Labels,
    Rows,
    check_rows,
    like,
    map_rows,
    namespace,
    to_numpy,
)
from typica.checks import Parameter
from typica.detectors._pipelines import final_detector
from typica.detectors.base import Detector, Tags
from typica.detectors.ctm import CTM
from typica.detectors.mahalanobis import Mahalanobis
from typica.errors import CalibrationWarning, InputError, about
from typica.estimator import is_pipeline
from typica.store import storable

Floats = NDArray[np.float64]
QUANTILES = 2048  # order statistics that are kept of each member


class Ranks(NamedTuple):
    """The distribution function F of observed scores, continued beyond them.

    knots (u,): the distinct observed scores, rising; levels (u,): F there; gaps and rises (u,): how
    far the next knot is and by how much F rises to it, 1 and 0 for the last; unit: the w of the
    tails.
    """

    knots: Floats
    levels: Floats
    gaps: Floats
    rises: Floats
    unit: float

    @classmethod
    def of(cls, scores: Floats) -> Self:
        """Make F from finite scores (n,), sorted.

        >>> Ranks.of(np.array([1.0, 2.0, 2.0, 5.0])).levels.tolist()
        [0.125, 0.5, 0.875]
        """
        knots, counts = np.unique(scores, return_counts=True)
        levels = (np.cumsum(counts) - counts / 2) / len(scores)
        low, middle = np.quantile(scores, [0.05, 0.5])
        unit = (middle - low) or (knots[-1] - knots[0]) or abs(knots[0]) or 1.0
        return cls(
            knots,
            levels,
            np.append(np.diff(knots), 1.0),
            np.append(np.diff(levels), 0.0),
            float(unit),
        )

    def __call__(self, scores: Array) -> Array:
        """Return F of scores (n,) of any backend, in float64."""
        xp = namespace(scores)
        scores = xp.astype(scores, xp.float64)
        knots, levels, gaps, rises = (like(a, scores) for a in self[:4])
        lowest, highest, zero = knots[:1], knots[-1:], xp.zeros_like(scores)
        inside = xp.minimum(xp.maximum(scores, lowest), highest)
        at = xp.searchsorted(knots, inside, side="right") - 1
        along = (inside - xp.take(knots, at)) / xp.take(gaps, at)
        with np.errstate(over="ignore"):  # infinitely far is far enough
            below = xp.maximum(lowest - scores, zero) / self.unit
            above = xp.maximum(scores - highest, zero) / self.unit
        left = 1.0 - float(self.levels[-1])
        return (
            xp.take(levels, at)
            + xp.take(rises, at) * along
            - 0.45 * xp.log1p(below)
            + left * (1 - 1 / (1 + above))
        )


MEMBERS = Parameter(
    lambda value: value is None or (isinstance(value, list | tuple) and len(value) > 0),
    "a list of detectors, or of Pipelines that end in one; or None",
    "{name}={value!r} is not a list of detectors; pass at least one, or None.",
)


@storable("ensemble")
class Ensemble(Detector):
    """The mean rank of the scores of several detectors.

    members: unfitted detectors, or scikit-learn Pipelines that end in one; `fit` fits copies of
    them, `members_`, on the same features. None: CTM and Mahalanobis. A member's parameters are
    reached by its name, that of its class (two of a kind: ctm-1, ctm-2; a Pipeline: react+energy),
    as in `set_params(ctm__correct_only=True)`.

    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(200) % 2
    >>> train = rng.normal(size=(200, 4)) + 5 * np.eye(4)[y]
    >>> ensemble = Ensemble([CTM(), Mahalanobis()]).fit(train, y)
    >>> ensemble.score_samples(np.array([[5.0, 0.0, 0.0, 0.0], [0.0, 0.0, 5.0, 0.0]])).round(2)
    array([ 1.  , -0.91])
    >>> print(ensemble.explain(np.array([[5.0, 0.0, 0.0, 0.0]]))[0].note)
    ranks: ctm 1.00, mahalanobis 1.00
    """

    tags = Tags(
        uses_labels=True,
        tolerance=(1e-3, 1e-9),
        fit_cost="sum of the members'",
        score_cost="sum of the members'",
        memory="sum of the members'",
        reference="in the manner of Kriegel et al. 2011, SDM",
    )
    params = {"members": MEMBERS}
    _ranks: list[Ranks]

    members_: list[Any]
    observed_: list[Floats]

    def __init__(self, members: list[Any] | None = None) -> None:
        self.members = members

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for i, member in enumerate(self.members or []):
            last = member.steps[-1][1] if is_pipeline(member) else member
            if not isinstance(last, Detector):
                raise InputError(
                    f"members[{i}] is a {type(last).__name__}; "
                    "pass detectors, or scikit-learn Pipelines that end in one."
                )

    def _learn(self, Z: Rows, labels: Labels | None) -> None:
        check_rows(Z)
        members = [CTM(), Mahalanobis()] if self.members is None else self.members
        with warnings.catch_warnings():  # about thresholds of members, which nobody asks for
            warnings.simplefilter("ignore", CalibrationWarning)
            self.members_ = [_fitted(name, member, Z, labels) for name, member in _named(members)]

    def _member_scores(self, Z: Array) -> Array:
        """Return the members' scores (n, members) of one block."""
        scores = [member.score_samples(Z) for member in self.members_]
        return namespace(scores[0]).stack(scores, axis=1)

    def _prepare(self) -> None:
        for member in self.members_:
            final_detector(member)._prepare()
        super()._prepare()

    def _derive(self) -> None:
        self._ranks = [Ranks.of(scores) for scores in getattr(self, "observed_", [])]

    def _before_calibration(self, Z: Array) -> None:
        """Take the ranks among the held-out rows, for which the threshold is then set."""
        S = to_numpy(map_rows(self._member_scores, Z, self._score_width()))
        names = [name for name, _ in _named(self.members_)]
        self.observed_ = [_observed(S[:, i], name) for i, name in enumerate(names)]
        self._ranks = [Ranks.of(scores) for scores in self.observed_]

    def _score(self, Z: Array) -> Array:
        return _mean_rank(self._member_scores(Z), self._ranks)

    def _score_width(self) -> int:
        widths = [final_detector(member)._score_width() for member in self.members_]
        return max(*widths, len(widths))

    def _note(self, z: AnyArray) -> str:
        scores = self._member_scores(z[None])
        ranks = [float(rank(scores[:, i])[0]) for i, rank in enumerate(self._ranks)]
        named = zip(_named(self.members_), ranks, strict=True)
        return "ranks: " + ", ".join(f"{name} {rank:.2f}" for (name, _), rank in named)

    def _named_members(self) -> list[tuple[str, Any]]:
        """Return the unfitted members with their names; none of what is not an estimator."""
        listed = self.members if isinstance(self.members, list | tuple) else []
        return _named([member for member in listed if isinstance(member, BaseEstimator)])

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; with `deep`, also the members by name and their parameters."""
        params: dict[str, Any] = super().get_params(deep=deep)
        if deep:
            for name, member in self._named_members():
                params[name] = member
                params |= {f"{name}__{key}": value for key, value in member.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set the members, single ones by their names, or parameters of theirs."""
        if "members" in params:
            self.members = params.pop("members")
        named = self._named_members()
        if any(name in params for name, _ in named):
            self.members = [params.pop(name, member) for name, member in named]
        super().set_params(**params)
        return self


def _fitted(name: str, member: Any, Z: Rows, labels: Labels | None) -> Any:
    with about(f"member {name}"):
        return clone(member).fit(Z, labels)


def _mean_rank(S: Array, ranks: list[Ranks]) -> Array:
    """Return the mean (n,) over the members of the ranks of their scores S (n, members)."""
    total = sum(rank(S[:, i]) for i, rank in enumerate(ranks))
    return namespace(S).astype(total / len(ranks), S.dtype)


def _observed(scores: AnyArray, name: str) -> Floats:
    """Return a member's finite in-distribution scores, sorted, evenly thinned to `QUANTILES`."""
    finite = np.sort(scores[np.isfinite(scores)].astype(np.float64))
    if len(finite) == 0:
        raise InputError(
            f"member {name} gives no finite score; rescale the features, or leave it out."
        )
    if len(finite) <= QUANTILES:
        return finite
    return np.asarray(finite[np.linspace(0, len(finite) - 1, QUANTILES).round().astype(int)])


def _named(members: list[Any]) -> list[tuple[str, Any]]:
    """Return the members with their names, which are numbered where two are alike."""
    names = [_name(member) for member in members]
    unique = []
    for i, name in enumerate(names):
        number = names[: i + 1].count(name)
        unique.append(f"{name}-{number}" if names.count(name) > 1 else name)
    return list(zip(unique, members, strict=True))


def _name(member: Any) -> str:
    """Return the name of a member's class, or the names of a Pipeline's steps joined by +."""
    steps = [step for _, step in member.steps] if is_pipeline(member) else [member]
    return "+".join(type(step).__name__.lower() for step in steps)
