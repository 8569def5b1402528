"""Choose a detector with no out-of-distribution data at all: each class in turn plays the unknown.

For every class k the detectors are fitted on the training rows of the other classes, with class k's
logit taken out of the head, and asked to tell held-out rows of the other classes from rows of class
k. A detector's merit is its mean AUROC over the classes. How sure the choice is comes from
resampling at two levels, the classes and the rows of both sides (`typica.bench._resampling`): other
classes might rank the detectors otherwise, and so might other images of the same classes. Where
images are there, corrupted and mixed ones play the unknown too, against detectors fitted on all
classes; both kinds then count one half.

What this cannot see: the network itself was trained on class k, so its features hold class k apart
better than they would hold a true unknown. AUROCs come out too high for all detectors, and those
that profit from such features more than the rest. Read it as a ranking, not as a forecast.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone

from typica.arrays import AnyArray
from typica.bench._engine import Comparison, Scores, compare
from typica.bench._resampling import (
    RESAMPLES,
    Counts,
    Floats,
    redrawn_aurocs,
    row_draws,
    unknown_draws,
)
from typica.detectors import Detector
from typica.errors import InputError, border
from typica.head import Head
from typica.progress import steps

NOISE = 0.05  # one that is ahead of the best in this share of resamples is not clearly behind it
TIE = 1e-6  # means that differ by no more are equal: no test could tell them apart
MOST_NAMES = 3  # of such detectors in one sentence


@dataclass(frozen=True)
class Choice:
    """Which detector is best on classes left out, and how sure that is.

    auroc: {detector: {class: AUROC with that class left out}}; certainty: {detector: share of
    resamples on which it has the best mean}; failed: {detector: why it could not take part}; near:
    {detector: {set: AUROC against held-out inputs}}, empty where there were none; ahead: {detector:
    share of resamples on which its mean exceeds that of `best`}, ties counted as half.
    """

    auroc: Mapping[str, Mapping[Any, float]]
    certainty: Mapping[str, float]
    failed: Mapping[str, str]
    near: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    ahead: Mapping[str, float] = field(default_factory=dict)

    @property
    def means(self) -> dict[str, float]:
        """The mean AUROC of each detector, best first; both kinds of unknown weigh the same."""
        return _means(self.auroc, self.near)

    @property
    def best(self) -> str:
        """The detector with the largest mean AUROC: the one that is recommended."""
        return next(iter(self.means))

    @property
    def rivals(self) -> list[str]:
        """The detectors whose difference from the best is within the noise, the nearest first."""
        close = [name for name, share in self.ahead.items() if share >= NOISE]
        return sorted(close, key=lambda name: -self.ahead[name])

    @property
    def verdict(self) -> str:
        """Which detector is recommended, why, and how clear that is, in a few sentences.

        >>> auroc = {"ctm": {0: 0.9, 1: 0.8}, "knn": {0: 0.8, 1: 0.8}}
        >>> choice = Choice(auroc, {"ctm": 0.99, "knn": 0.01}, {}, ahead={"knn": 0.01})
        >>> print(choice.verdict)  # doctest: +NORMALIZE_WHITESPACE
        ctm is recommended: it has the best mean AUROC, 85.00 %, and is ahead of knn in 99 % of
        resamples.
        """
        best, means = self.best, self.means
        if len(means) == 1:
            merit = f"with a mean AUROC of {100 * means[best]:.2f} %"
            return f"{best} is the only detector that took part, {merit}."
        equal = self._equals()
        reason = f"{best} is recommended: it has the best mean AUROC, {100 * means[best]:.2f} %"
        if equal:
            verb = "has" if len(equal) == 1 else "have"
            reason += f", as {verb} {_listed(equal)}"
        if not self.rivals:
            return f"{reason}, and is ahead of {self._how_clearly()}."
        rivals = _listed([best, *self.rivals])
        doubt = f"But there is no clear winner between {rivals}: the difference is within the noise"
        return f"{reason}. {doubt}{self._how_close(equal)}.{self._who_is_best_more_often()}"

    def _equals(self) -> list[str]:
        """Return the other detectors whose mean is that of the best."""
        means, best = self.means, self.best
        return [name for name in means if name != best and means[best] - means[name] <= TIE]

    def _how_clearly(self) -> str:
        nearest = max(self.ahead, key=lambda name: self.ahead[name])
        other = nearest if len(self.means) == 2 else "every other"
        return f"{other} in {_share(1 - self.ahead[nearest])} of resamples"

    def _how_close(self, equal: Sequence[str]) -> str:
        close = next((name for name in self.rivals if name not in equal), None)
        if close is None:
            return ""
        return f" ({close} is ahead of {self.best} in {_share(self.ahead[close])} of resamples)"

    def _who_is_best_more_often(self) -> str:
        often = max(self.certainty, key=lambda name: self.certainty[name])
        if self.certainty[often] <= self.certainty[self.best]:
            return ""
        often_share, best_share = _share(self.certainty[often]), _share(self.certainty[self.best])
        return (
            f" {often} is best of all more often than {self.best} ({often_share} of resamples "
            f"against {best_share}; detectors that are nearly alike share theirs), "
            "but the mean decides."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the choice as plain JSON types."""
        auroc = {}
        for name, by_class in self.auroc.items():
            auroc[name] = {str(label): value for label, value in by_class.items()}
        return {
            "best": self.best,
            "verdict": self.verdict,
            "rivals": self.rivals,
            "certainty": dict(self.certainty),
            "ahead": dict(self.ahead),
            "mean_auroc": self.means,
            "auroc": auroc,
            "near": {name: dict(by) for name, by in self.near.items()},
            "failed": dict(self.failed),
        }


@border
def leave_classes_out(
    detectors: Mapping[str, Detector],
    train: AnyArray,
    labels: AnyArray,
    held_out: AnyArray,
    held_out_labels: AnyArray,
    *,
    near: Mapping[str, AnyArray] | None = None,
    seed: int = 0,
) -> Choice:
    """Compare detectors with each class in turn as the unknown; see the module for what it tells.

    `detectors` are unfitted and stay so; their heads, where they have one, must name the labels'
    classes. near: features of corrupted or mixed inputs by name.
    """
    classes = np.unique(labels)
    _check_classes(classes, held_out_labels)
    known = _Rows(train, labels, held_out, held_out_labels)
    rng = np.random.default_rng(seed)
    rows, tally = row_draws(held_out_labels, rng), _Tally(detectors)
    class_weights = unknown_draws(len(classes), rng)
    near_weights = unknown_draws(max(len(near or {}), 1), rng)
    share = 0.5 if near else 1.0
    with steps("leaving classes out", len(classes)) as done:
        for place, left_out in enumerate(classes.tolist()):
            weights = class_weights[:, [place]] * share
            inside = known.held_out_labels != left_out
            unknown = {left_out: (rows[:, ~inside], weights)}
            table = _without_class(left_out, detectors, known)
            tally.add(table, rows[:, inside], unknown, tally.auroc)
            done(str(left_out))
    if near:
        made = {name: clone(detector) for name, detector in detectors.items()}
        table = compare(made, train, labels, held_out, near, keep_scores=True)
        tally.add(table, rows, _near_draws(near, near_weights * share, rng), tally.near)
    return tally.choice()


@dataclass(frozen=True)
class _Rows:
    """Training and held-out features with their labels."""

    train: AnyArray
    labels: AnyArray
    held_out: AnyArray
    held_out_labels: AnyArray


def _check_classes(classes: AnyArray, held_out_labels: AnyArray) -> None:
    if len(classes) < 3:
        raise InputError(f"{len(classes)} classes; at least 3 are needed to leave one out.")
    absent = np.setdiff1d(classes, held_out_labels)
    if len(absent):
        raise InputError(f"class {absent[0]} has no held-out rows; hold some of every class out.")


def _without_class(
    left_out: Any, detectors: Mapping[str, Detector], rows: _Rows
) -> dict[str, Comparison]:
    """Compare detectors that do not know a class, which plays the unknown."""
    kept, inside = rows.labels != left_out, rows.held_out_labels != left_out
    return compare(
        {name: _without(detector, left_out) for name, detector in detectors.items()},
        rows.train[kept],
        rows.labels[kept],
        rows.held_out[inside],
        {left_out: rows.held_out[~inside]},
        keep_scores=True,
    )


def _near_draws(
    near: Mapping[str, AnyArray], weights: Floats, rng: np.random.Generator
) -> dict[str, tuple[Counts, Floats]]:
    """Return the draws of each near set's rows, and its weights.

    Row i of near sets of one size is a version of the same image in each: they are drawn together.
    """
    sizes = sorted({len(features) for features in near.values()})
    by_size = {n: row_draws(np.zeros(n), rng) for n in sizes}
    draws = {}
    for place, (name, features) in enumerate(near.items()):
        draws[name] = (by_size[len(features)], weights[:, [place]])
    return draws


class _Tally:
    """What the rounds leave behind: AUROCs, the mean on every resample, and who failed."""

    def __init__(self, names: Iterable[str]) -> None:
        self.resampled = {name: np.zeros(RESAMPLES) for name in names}
        self.auroc: dict[str, dict[Any, float]] = {name: {} for name in self.resampled}
        self.near: dict[str, dict[Any, float]] = {name: {} for name in self.resampled}
        self.failed: dict[str, str] = {}

    def add(
        self,
        table: Mapping[str, Comparison],
        known: Counts,
        unknown: Mapping[Any, tuple[Counts, Floats]],
        aurocs: dict[str, dict[Any, float]],
    ) -> None:
        """Add a round to the resampled means and to these AUROCs.

        known: draws of the held-out rows. unknown: draws and weights of each set of unknown rows.
        """
        scores: dict[str, Scores] = {}
        for name, row in table.items():
            if row.evaluation is None or row.scores is None:
                self.failed[name] = row.error
                continue
            scores[name] = row.scores
            aurocs[name] |= {key: row.evaluation.ood[key].auroc for key in unknown}
        if not scores:
            return
        of_known = [found.test for found in scores.values()]
        for key, (draws, weights) in unknown.items():
            of_unknown = [found.ood[key] for found in scores.values()]
            redrawn = weights * redrawn_aurocs(of_known, of_unknown, known, draws)
            for name, column in zip(scores, redrawn.T, strict=True):
                self.resampled[name] += column

    def choice(self) -> Choice:
        """Return what the rounds amount to, of the detectors that took part in all of them."""
        names = [name for name in self.resampled if name not in self.failed]
        if not names:
            example = next(iter(self.failed.items()))
            raise InputError(f"every detector failed, e.g. {example}; see their needs.")
        auroc = {name: self.auroc[name] for name in names}
        near = {name: self.near[name] for name in names if self.near[name]}
        means = np.stack([self.resampled[name] for name in names], axis=1)
        best = next(iter(_means(auroc, near)))
        ahead = _ahead(names, means, best)
        return Choice(auroc, _certainty(names, means), self.failed, near, ahead)


def _without(detector: Detector, left_out: Any) -> Detector:
    """Return an unfitted copy of a detector whose head, if it has one, lacks a class."""
    made: Detector = clone(detector)
    head: Head | None = getattr(made, "head", None)
    if head is None:
        return made
    kept = head.classes != left_out
    if kept.all():
        raise InputError(f"the head has no class {left_out}; name its classes as the labels are.")
    made.set_params(head=Head(head.weight[kept], head.bias[kept], head.classes[kept]))
    return made


def _means(*kinds: Mapping[str, Mapping[Any, float]]) -> dict[str, float]:
    """Return the mean AUROC of each detector, best first; kinds of unknowns weigh the same."""
    used = [kind for kind in kinds if kind]
    means = {}
    for name in used[0]:
        by_kind = [np.mean(list(kind[name].values())) for kind in used]
        means[name] = float(np.mean(by_kind))
    return dict(sorted(means.items(), key=lambda item: -item[1]))


def _certainty(names: Sequence[str], means: Floats) -> dict[str, float]:
    """Return how often each detector has the best of the means (resamples, detectors).

    Ties are shared.
    """
    best = np.isclose(means, means.max(axis=1, keepdims=True), rtol=0, atol=TIE)
    shares = (best / best.sum(axis=1, keepdims=True)).mean(axis=0)
    return dict(zip(names, shares.tolist(), strict=True))


def _ahead(names: Sequence[str], means: Floats, best: str) -> dict[str, float]:
    """Return how often the mean of each of the others exceeds that of the best; a tie is half."""
    beyond = means - means[:, [names.index(best)]]
    shares = np.where(np.abs(beyond) <= TIE, 0.5, beyond > 0).mean(axis=0)
    ahead = dict(zip(names, shares.tolist(), strict=True))
    del ahead[best]
    return ahead


def _share(value: float) -> str:
    """Return a share in whole percent, with no 100 % that is not one.

    >>> _share(0.421), _share(0.9996), _share(0.0004)
    ('42 %', 'over 99 %', 'under 1 %')
    """
    if 0.99 < value < 1:
        return "over 99 %"
    return "under 1 %" if 0 < value < 0.01 else f"{100 * value:.0f} %"


def _listed(names: Sequence[str]) -> str:
    """Return names as a sentence has them, the first few of many.

    >>> _listed(["ctm", "knn"]), _listed(["ctm", "knn", "msp", "cw", "energy"])
    ('ctm and knn', 'ctm, knn, msp and 2 others')
    """
    shown = list(names[:MOST_NAMES])
    if len(names) > MOST_NAMES + 1:
        return f"{', '.join(shown)} and {len(names) - MOST_NAMES} others"
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} and {names[-1]}"
