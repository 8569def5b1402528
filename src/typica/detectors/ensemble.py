"""Ensemble: the scores of its members made one, each as it stands among in-distribution scores.

    mean:        score(z) = mean_i F_i(score_i(z))
                 F_i = distribution function of member i's scores of in-distribution rows
    fisher:      2 sum_i ln p_i(z)
    stouffer:    sum_i Phi^-1(p_i(z)) / sqrt(m)
    simes:       min_j ln(m p_(j)(z) / j)
    twice_mean:  2 mean_i p_i(z)
    linear:      sum_i w_i score_i(z), by `learn_weights`

F rises through the observed scores, of which at most 2,048 order statistics are kept: at each of
them it is the share of scores below plus half the share of equal ones, and linear in between. It
goes on where nothing was observed, because that is where most unknown inputs lie. Below the lowest
score v it falls without bound, as F(v) - 0.45 log(1 + (v - s) / w), w being what lies between the
scores' 5 % quantile and their median: it sets out at the mean slope between these two, and no
member can outweigh the others by its scale alone. Above the highest score V it rises towards 1, as
1 - (1 - F(V)) / (1 + (s - V) / w): being far above all that is known is no reason for more trust.

p_i is the conformal p-value by the same scores, which goes on below them in the same manner: one
member that finds a row strange decides in Simes', several that find it a little strange add up in
Fisher's and Stouffer's, and twice the mean asks for all of them. `combined_p_values` gives the
combination as a p-value: see `typica.combine` for when it is valid.

No out-of-distribution data is used. `fit` takes the ranks among a sample of the training rows,
which a member may remember too well; `calibrate` takes them from one half of the held-out rows,
drawn with a fixed seed, and the threshold from the other half. No row is then ranked among scores
that its own is one of, and the guarantees hold as for any other detector, with half as many rows.
`partial_calibrate` leaves the ranks as they are, and takes all of its rows for the threshold.

In the manner of Kriegel, Kröger, Schubert, Zimek: Interpreting and Unifying Outlier Scores, SDM
2011, with ranks in place of densities. Higher = more typical. Cost: that of the members.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from typing import Any, Self

from sklearn.base import BaseEstimator, clone

from typica.arrays import Array, Labels, Rows, check_rows, namespace
from typica.checks import Parameter
from typica.detectors._bases.combination import COMBINE, Combination, unfitted
from typica.detectors._pipelines import final_detector, is_pipeline, last_step
from typica.detectors.base import Detector
from typica.detectors.ctm import CTM
from typica.detectors.mahalanobis import Mahalanobis
from typica.errors import CalibrationWarning, InputError, a_kind, about
from typica.store import storable
from typica.tags import Tags


class Members(Parameter):
    """The parameter `members` of an ensemble: each is checked to be or to name a detector."""

    def check(self, name: str, value: Any) -> None:
        """Raise unless the value is None, or a list of detectors, their names and Pipelines."""
        super().check(name, value)
        for i, member in enumerate(value or []):
            last = last_step(unfitted(member))
            if not isinstance(last, Detector):
                raise InputError(
                    f"{name}[{i}] is {a_kind(last)}; "
                    "pass names of detectors, detectors, or Pipelines that end in one."
                )


MEMBERS = Members(
    lambda value: value is None or (isinstance(value, list | tuple) and len(value) > 0),
    "a list of detectors, of their names, or of Pipelines that end in one; or None",
    '{name}={value!r} is not a list of detectors; pass at least one, e.g. ["ctm", "knn"], or None.',
)


@storable("ensemble")
class Ensemble(Combination):
    """The scores of several detectors made one.

    members: unfitted detectors, names of detectors, or scikit-learn Pipelines that end in one;
    `fit` fits copies of them, `members_`, on the same features. None: CTM and Mahalanobis. A
    member's parameters are reached by its name, that of its class (two of a kind: ctm-1, ctm-2; a
    Pipeline: react+energy), as in `set_params(ctm__correct_only=True)`. combine: how their scores
    become one.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(200) % 2
    >>> train = rng.normal(size=(200, 4)) + 5 * np.eye(4)[y]
    >>> ensemble = Ensemble([CTM(), Mahalanobis()]).fit(train, y)
    >>> ensemble.score_samples(np.array([[5.0, 0.0, 0.0, 0.0], [0.0, 0.0, 5.0, 0.0]])).round(2)
    array([ 1.  , -0.91])
    >>> print(ensemble.explain(np.array([[5.0, 0.0, 0.0, 0.0]]))[0].note)
    ranks: ctm 1.00, mahalanobis 1.00
    >>> fisher = Ensemble([CTM(), Mahalanobis()], combine="fisher").fit(train, y)
    >>> fisher.combined_p_values(np.array([[5.0, 0.0, 0.0, 0.0], [0.0, 0.0, 5.0, 0.0]])).round(3)
    array([1.   , 0.002])
    """

    tags = Tags(
        uses_labels=True,
        tolerance=(1e-3, 1e-9),
        fit_cost="sum of the members'",
        score_cost="sum of the members'",
        memory="sum of the members'",
        reference="in the manner of Kriegel et al. 2011, SDM",
    )
    params = {"members": MEMBERS, "combine": COMBINE}
    learnt_by = ("members",)

    def __init__(self, members: list[Any] | None = None, combine: str = "mean") -> None:
        self.members = members
        self.combine = combine

    def _learn(self, Z: Rows, labels: Labels | None) -> None:
        check_rows(Z)
        given = [CTM(), Mahalanobis()] if self.members is None else self.members
        members = _named(list(map(unfitted, given)))
        with warnings.catch_warnings():  # about thresholds of members, which nobody asks for
            warnings.simplefilter("ignore", CalibrationWarning)
            self.members_ = [_fitted(name, member, Z, labels) for name, member in members]

    def _member_scores(self, Z: Array) -> Array:
        """Return the members' scores (n, members) of one block."""
        scores = [member.score_samples(Z) for member in self.members_]
        return namespace(scores[0]).stack(scores, axis=1)

    def _member_names(self) -> list[str]:
        return [name for name, _ in _named(self.members_)]

    def _score_width(self) -> int:
        widths = [final_detector(member)._score_width() for member in self.members_]
        return max(*widths, len(widths))

    def _named_members(self) -> list[tuple[str, Any]]:
        """Return the unfitted members with their names; none of what is not an estimator."""
        listed = self.members if isinstance(self.members, list | tuple) else []
        made = []
        for member in listed:
            with suppress(InputError):  # of a text that is not the name of a detector
                made.append(unfitted(member))
        return _named([member for member in made if isinstance(member, BaseEstimator)])

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
        reached = {key.partition("__")[0] for key in params}
        if any(name in reached for name, _ in named):
            self.members = [params.pop(name, member) for name, member in named]
        super().set_params(**params)
        return self


def _fitted(name: str, member: Any, Z: Rows, labels: Labels | None) -> Any:
    with about(f"member {name}"):
        return clone(member).fit(Z, labels)


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
