"""What `choose` found, and what it says about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from typica.bench._resampling import Floats

NOISE = 0.05  # one that is ahead of the first in this share of resamples is not clearly behind it
LEAST = 0.002  # nor is one whose mean AUROC is this close: the unknowns are made up
TIE = 1e-6  # means that differ by no more are equal: no test could tell them apart
MOST_NAMES = 3  # of such detectors in one sentence
DEFAULTS = ("quorum", "ctm")  # the first that took part is the one to take if unknowns do not tell
SEVERAL = (
    "quorum"  # relies on several signs of the unknown: to see one of them better is not enough
)
# The one lead by features alone that held against real unknowns (docs/choosing.md): that of a
# distance to a class relative to the distance to all rows, by a point, where classes are many.
RELATIVE = ("rmds_pp", "relative_mahalanobis")
POINT = 0.01
MANY = 20
FAMILIES = {"neighbours": "classes"}  # kinds that share the weight of another
CANNOT_SEE = (
    "What this cannot see: unknowns made of known rows are not strangers. The network was trained "
    "on the classes that are left out, so all AUROCs are too high; and inputs from elsewhere "
    "(other sensors, other domains, noise) can leave features that nothing here resembles. Read "
    "the order, and measure with `typica compare` as soon as there are real unknowns."
)

Aurocs = Mapping[str, Mapping[Any, float]]  # {detector: {set: AUROC}}


@dataclass(frozen=True)
class Choice:
    """Which detector to take, judged by unknowns made of known rows, and how sure that is.

    Attributes
    ----------
    auroc
        {detector: {class: AUROC with that class left out}}; empty if there are only two classes.
    neighbours, swapped, redrawn, near
        The same for groups of neighbouring classes, for rows with swapped features, for random rows
        and for corrupted images; empty if there were none.
    certainty
        {detector: share of resamples in which it has the best mean}.
    ahead
        {detector: share of resamples in which its mean exceeds that of `leader`}; a tie is half.
    failed
        {detector: why it could not take part}.
    """

    auroc: Aurocs
    certainty: Mapping[str, float]
    failed: Mapping[str, str]
    near: Aurocs = field(default_factory=dict)
    ahead: Mapping[str, float] = field(default_factory=dict)
    neighbours: Aurocs = field(default_factory=dict)
    swapped: Aurocs = field(default_factory=dict)
    redrawn: Aurocs = field(default_factory=dict)

    @property
    def kinds(self) -> dict[str, Aurocs]:
        """The AUROCs by kind of unknowns, of the kinds that there are."""
        every = {
            "classes": self.auroc,
            "neighbours": self.neighbours,
            "swapped": self.swapped,
            "redrawn": self.redrawn,
            "images": self.near,
        }
        return {kind: aurocs for kind, aurocs in every.items() if aurocs}

    @property
    def means(self) -> dict[str, float]:
        """The mean AUROC of each detector, best first; kinds weigh as `kind_weights` says."""
        return mean_aurocs(self.kinds)

    def by_kind(self, name: str) -> dict[str, float]:
        """Return the mean AUROC of a detector on each kind of unknowns."""
        return {kind: _mean(aurocs[name]) for kind, aurocs in self.kinds.items()}

    @property
    def leader(self) -> str:
        """The detector with the largest mean AUROC."""
        return next(iter(self.means))

    @property
    def rivals(self) -> list[str]:
        """The detectors that are not clearly behind the leader, the nearest first."""
        means = self.means
        close = []
        for name, share in self.ahead.items():
            if share >= NOISE or means[self.leader] - means[name] < LEAST:
                close.append(name)
        return sorted(close, key=lambda name: -self.ahead[name])

    @property
    def default(self) -> str | None:
        """What to take where the unknowns do not tell: Quorum, else CTM, if they took part."""
        return next((name for name in DEFAULTS if name in self.means), None)

    @property
    def told(self) -> bool:
        """Whether the unknowns tell which to take: the leader, clearly ahead of the default.

        To depart from Quorum takes more than a better mean, because what features alone say about
        real unknowns is too often wrong. It takes a lead on every kind of unknowns, changed images
        among them; or, with many classes, a lead of a point by a relative Mahalanobis distance.
        """
        if self.default in (None, self.leader):
            return not self.rivals
        clear = self.default not in self.rivals
        if not clear or self.default != SEVERAL:
            return clear
        return self._leads_on_every_kind() or self._leads_among_many_classes()

    @property
    def best(self) -> str:
        """The detector that is recommended: the leader, or the default if they do not tell."""
        if self.told or self.default is None:
            return self.leader
        return self.default

    def _leads_on_every_kind(self) -> bool:
        return bool(self.near) and not self._kinds_behind()

    def _leads_among_many_classes(self) -> bool:
        many = len(self.auroc.get(self.leader, ())) >= MANY
        return many and self.leader in RELATIVE and self._lead() >= POINT - TIE

    def _lead(self) -> float:
        """Return by how much the leader's mean exceeds the default's."""
        means = self.means
        return means[self.leader] - means[self.default or self.leader]

    def _kinds_behind(self) -> list[str]:
        """Return the kinds of unknowns on which the leader is behind the default."""
        if self.default is None:
            return []
        leads, default = self.by_kind(self.leader), self.by_kind(self.default)
        return [kind for kind in leads if leads[kind] < default[kind] - TIE]

    @property
    def reading(self) -> str:
        """How a table of the choice is read: what its columns measure, and against what."""
        kinds = {
            "classes": "each class left out",
            "neighbours": "neighbouring classes left out together",
            "swapped": "features swapped with those of a neighbouring class",
            "redrawn": "random rows with the mean and covariance of all known rows",
        }
        if self.near:
            kinds["images"] = f"images changed ({', '.join(next(iter(self.near.values())))})"
        told = "; ".join(f"{kind}: {what}" for kind, what in kinds.items() if kind in self.kinds)
        shared = ", but classes and neighbours half each" if self.neighbours else ""
        return (
            f"AUROC against unknowns made of known rows, all kinds weigh the same{shared}. {told}. "
            "When unknowns and rows are resampled: how often a detector is best of all, and how "
            f"often ahead of {self.leader} (a tie is half)."
        )

    @property
    def verdict(self) -> str:
        """Which detector to take, why, and how clear that is, in a few sentences.

        >>> auroc = {"ctm": {0: 0.9, 1: 0.8}, "knn": {0: 0.8, 1: 0.8}}
        >>> choice = Choice(auroc, {"ctm": 0.99, "knn": 0.01}, {}, ahead={"knn": 0.01})
        >>> print(choice.verdict)  # doctest: +NORMALIZE_WHITESPACE
        ctm is recommended: it has the best mean AUROC, 85.00 %, and is ahead of knn in 99 % of
        resamples.
        """
        merit = f"{100 * self.means[self.leader]:.2f} %"
        if len(self.means) == 1:
            only = f"{self.leader} is the only detector that took part"
            return f"{only}, with a mean AUROC of {merit}.{self._others_to_take()}"
        if not self.told:
            return f"{self._why_it_cannot_tell(merit)} {self._what_to_do()}"
        reason = f"{self.leader} is recommended: it has the best mean AUROC, {merit}"
        if not self.rivals:
            return f"{reason}, and is ahead of {self._how_clearly()}.{self._why_it_departs()}"
        beyond = _share_of_resamples(1 - self.ahead[self.default or ""])
        doubt = f"There is no clear winner between {_listed([self.leader, *self.rivals])}"
        clearly = f"{reason}, and is ahead of {self.default} in {beyond} of resamples."
        return f"{clearly}{self._why_it_departs()} {doubt}."

    def _why_it_departs(self) -> str:
        """Return why a lead by features alone is reason enough to leave Quorum, if it is."""
        if self.default != SEVERAL or self._leads_on_every_kind():
            return ""
        if not self._leads_among_many_classes():
            return ""
        return (
            f" There are many classes ({len(self.auroc[self.leader])}), and a relative Mahalanobis "
            f"distance leads {self.default} by {100 * self._lead():.2f} points: there such a lead "
            "has held against real unknowns so far."
        )

    def _why_it_cannot_tell(self, merit: str) -> str:
        leader, default = self.leader, self.default
        if default not in (None, leader, *self.rivals):
            best = f"{leader} has the best mean AUROC, {merit}"
            return f"Cannot tell: {best}, but {self._why_it_is_no_reason()}."
        equal = self._equals()
        if equal:
            tied = f"{_listed([leader, *equal])} have the same mean AUROC, {merit}"
        else:
            tied = f"{leader} has the best mean AUROC, {merit}, but not clearly"
        who = _listed([leader, *self.rivals])
        return f"Cannot tell which is best of {who}: {tied}{self._how_close(equal)}."

    def _why_it_is_no_reason(self) -> str:
        behind = self._kinds_behind()
        if behind:
            return f"is behind {self.default} on some kinds of unknowns ({', '.join(behind)})"
        return (
            "against unknowns made of features alone, which does not justify leaving "
            f"{self.default}; with the images, changed ones can say more"
        )

    def _equals(self) -> list[str]:
        """Return the other detectors whose mean is that of the leader."""
        means, leader = self.means, self.leader
        return [name for name in means if name != leader and means[leader] - means[name] <= TIE]

    def _what_to_do(self) -> str:
        if self.default is None:
            return f"{self.leader} may do.{self._others_to_take()}"
        if self.default != SEVERAL:
            return f"Take {self.default}, the default."
        return f"Take {self.default}, which does not rely on a single sign of the unknown."

    def _others_to_take(self) -> str:
        if self.default is not None:
            return ""
        return f" Or take {' or '.join(DEFAULTS)}, which were not compared."

    def _how_clearly(self) -> str:
        nearest = max(self.ahead, key=lambda name: self.ahead[name])
        other = nearest if len(self.means) == 2 else "every other"
        return f"{other} in {_share_of_resamples(1 - self.ahead[nearest])} of resamples"

    def _how_close(self, equal: Sequence[str]) -> str:
        close = next((name for name in self.rivals if name not in equal), None)
        if close is None:
            return ""
        gap = 100 * (self.means[self.leader] - self.means[close])
        share = _share_of_resamples(self.ahead[close])
        return f" ({close} is {gap:.2f} points behind, and ahead in {share} of resamples)"

    def to_dict(self) -> dict[str, Any]:
        """Return the choice as plain JSON types."""
        return {
            "best": self.best,
            "told": self.told,
            "leader": self.leader,
            "verdict": self.verdict,
            "cannot_see": CANNOT_SEE,
            "rivals": self.rivals,
            "certainty": dict(self.certainty),
            "ahead": dict(self.ahead),
            "mean_auroc": self.means,
            "auroc": _plain(self.auroc),
            "neighbours": _plain(self.neighbours),
            "swapped": _plain(self.swapped),
            "redrawn": _plain(self.redrawn),
            "near": _plain(self.near),
            "failed": dict(self.failed),
        }


def kind_weights(kinds: Sequence[str]) -> dict[str, float]:
    """Return the weight of each kind of unknowns: the same, but those of one family share it.

    >>> kind_weights(["classes", "neighbours", "swapped"])
    {'classes': 0.25, 'neighbours': 0.25, 'swapped': 0.5}
    """
    families = [FAMILIES.get(kind, kind) for kind in kinds]
    count = len(set(families))
    return {
        kind: 1 / (count * families.count(family))
        for kind, family in zip(kinds, families, strict=True)
    }


def mean_aurocs(kinds: Mapping[str, Aurocs]) -> dict[str, float]:
    """Return the mean AUROC of each detector, best first; kinds weigh as `kind_weights` says."""
    weights = kind_weights(list(kinds))
    means: dict[str, float] = {}
    for kind, aurocs in kinds.items():
        for name, by_set in aurocs.items():
            means[name] = means.get(name, 0.0) + weights[kind] * _mean(by_set)
    return dict(sorted(means.items(), key=lambda item: -item[1]))


def certainties(names: Sequence[str], means: Floats) -> dict[str, float]:
    """Return how often each detector has the best of the means (resamples, detectors).

    Ties are shared.
    """
    best = np.isclose(means, means.max(axis=1, keepdims=True), rtol=0, atol=TIE)
    shares = (best / best.sum(axis=1, keepdims=True)).mean(axis=0)
    return dict(zip(names, shares.tolist(), strict=True))


def shares_ahead(names: Sequence[str], means: Floats, leader: str) -> dict[str, float]:
    """Return how often the mean of each of the others exceeds the leader's; a tie is half."""
    beyond = means - means[:, [names.index(leader)]]
    shares = np.where(np.abs(beyond) <= TIE, 0.5, beyond > 0).mean(axis=0)
    ahead = dict(zip(names, shares.tolist(), strict=True))
    del ahead[leader]
    return ahead


def _mean(by_set: Mapping[Any, float]) -> float:
    return float(np.mean(list(by_set.values())))


def _plain(aurocs: Aurocs) -> dict[str, dict[str, float]]:
    plain = {}
    for name, by_set in aurocs.items():
        plain[name] = {str(key): value for key, value in by_set.items()}
    return plain


def _share_of_resamples(value: float) -> str:
    """Return a share of resamples in whole percent, never rounded to 0 or 100 %.

    >>> _share_of_resamples(0.421), _share_of_resamples(0.9996), _share_of_resamples(0.0004)
    ('42 %', 'over 99 %', 'under 1 %')
    """
    if 0.99 < value < 1:
        return "over 99 %"
    return "under 1 %" if 0 < value < 0.01 else f"{100 * value:.0f} %"


def _listed(names: Sequence[str]) -> str:
    """Return detectors as a sentence of the choice names them, the first few of many.

    >>> _listed(["ctm", "knn"]), _listed(["ctm", "knn", "msp", "cw", "energy"])
    ('ctm and knn', 'ctm, knn, msp and 2 others')
    """
    shown = list(names[:MOST_NAMES])
    if len(names) > MOST_NAMES + 1:
        return f"{', '.join(shown)} and {len(names) - MOST_NAMES} others"
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} and {names[-1]}"
