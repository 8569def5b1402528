"""Choose a detector with no out-of-distribution data at all: each class in turn plays the unknown.

For every class k the detectors are fitted on the training rows of the other classes, with class k's
logit taken out of the head, and asked to tell held-out rows of the other classes from rows of class
k. A detector's merit is its mean AUROC over the classes. How sure the choice is comes from
resampling at two levels, the classes and the rows of both sides (`typica.bench.resampling`): other
classes might rank the detectors otherwise, and so might other images of the same classes. Where
images are there, corrupted and mixed ones play the unknown too, against detectors fitted on all
classes; both kinds then count one half.

What this cannot see: the network itself was trained on class k, so its features hold class k apart
better than they would hold a true unknown. AUROCs come out too high for all detectors, and those
that profit from such features more than the rest. Read it as a ranking, not as a forecast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from typica.bench.resampling import (
    RESAMPLES,
    Counts,
    Floats,
    redrawn_aurocs,
    row_draws,
    unknown_draws,
)
from typica.bench.run import Comparison, compare
from typica.detectors import Detector
from typica.errors import InputError
from typica.head import Head

NOISE = (
    0.05  # a detector that is ahead of the best in this share of resamples is not clearly behind it
)
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
        """The mean AUROC of each detector, best first; classes left out and near sets weigh the same."""
        return _means(self.auroc, self.near)

    @property
    def best(self) -> str:
        """The detector with the largest mean AUROC: the one that is recommended."""
        return next(iter(self.means))

    @property
    def rivals(self) -> list[str]:
        """The detectors that are not clearly behind the best, the nearest first: the difference is within the noise."""
        return [
            name
            for name in sorted(self.ahead, key=lambda n: -self.ahead[n])
            if self.ahead[name] >= NOISE
        ]

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
            return f"{best} is the only detector that took part, with a mean AUROC of {100 * means[best]:.2f} %."
        equal = [name for name in means if name != best and means[best] - means[name] <= TIE]
        reason = f"{best} is recommended: it has the best mean AUROC, {100 * means[best]:.2f} %"
        reason += f", as {'has' if len(equal) == 1 else 'have'} {_listed(equal)}" if equal else ""
        if not self.rivals:
            nearest = max(self.ahead, key=lambda name: self.ahead[name])
            other = nearest if len(means) == 2 else "every other"
            return f"{reason}, and is ahead of {other} in {_share(1 - self.ahead[nearest])} of resamples."
        text = f"{reason}. But there is no clear winner between {_listed([best, *self.rivals])}: the difference is "
        close = next((name for name in self.rivals if name not in equal), None)
        how = (
            ""
            if close is None
            else f" ({close} is ahead of {best} in {_share(self.ahead[close])} of resamples)"
        )
        text += f"within the noise{how}."
        often = max(self.certainty, key=lambda name: self.certainty[name])
        if self.certainty[often] > self.certainty[best]:
            text += (
                f" {often} is best of all more often than {best} ({_share(self.certainty[often])} of resamples against "
                f"{_share(self.certainty[best])}; detectors that are nearly alike share theirs), but the mean decides."
            )
        return text

    def to_dict(self) -> dict[str, Any]:
        """Return the choice as plain JSON types."""
        return {
            "best": self.best,
            "verdict": self.verdict,
            "rivals": self.rivals,
            "certainty": dict(self.certainty),
            "ahead": dict(self.ahead),
            "mean_auroc": self.means,
            "auroc": {name: {str(k): v for k, v in by.items()} for name, by in self.auroc.items()},
            "near": {name: dict(by) for name, by in self.near.items()},
            "failed": dict(self.failed),
        }


def leave_classes_out(
    detectors: Mapping[str, Detector],
    train: NDArray[Any],
    labels: NDArray[Any],
    held_out: NDArray[Any],
    held_out_labels: NDArray[Any],
    *,
    near: Mapping[str, NDArray[Any]] | None = None,
    seed: int = 0,
    on_done: Callable[[str], None] = lambda name: None,
) -> Choice:
    """Compare detectors with each class in turn as the unknown; see the module for what that can tell.

    `detectors` are unfitted and stay so; their heads, where they have one, must name the labels'
    classes. near: features of corrupted or mixed inputs by name. `on_done` is called with each
    class that is through.
    """
    classes = np.unique(labels)
    if len(classes) < 3:
        raise InputError(f"choose: {len(classes)} classes; at least 3 are needed to leave one out.")
    absent = np.setdiff1d(classes, held_out_labels)
    if len(absent):
        raise InputError(
            f"choose: class {absent[0]} has no held-out rows; hold some of every class out."
        )
    near = near or {}
    rng = np.random.default_rng(seed)
    rows, tally = row_draws(held_out_labels, rng), _Tally(detectors)
    of_classes, of_near = (unknown_draws(n, rng) for n in (len(classes), max(len(near), 1)))
    rounds = []
    for i, left_out in enumerate(classes.tolist()):
        kept, known = labels != left_out, held_out_labels != left_out
        made = {name: _without(detector, left_out) for name, detector in detectors.items()}
        strange = {left_out: held_out[~known]}
        table = compare(made, train[kept], labels[kept], held_out[known], strange, keep_scores=True)
        weights = of_classes[:, [i]] * (0.5 if near else 1)
        rounds.append(tally.add(table, rows[:, known], {left_out: (rows[:, ~known], weights)}))
        on_done(str(left_out))
    found: dict[str, dict[str, float]] = {}
    if near:
        made = {name: clone(detector) for name, detector in detectors.items()}
        table = compare(made, train, labels, held_out, near, keep_scores=True)
        # Row i of near sets of one size is a version of the same image in each: they are drawn
        # together.
        draws = {n: row_draws(np.zeros(n), rng) for n in sorted(set(map(len, near.values())))}
        unknown = {
            name: (draws[len(near[name])], of_near[:, [i]] / 2) for i, name in enumerate(near)
        }
        found = tally.add(table, rows, unknown)
    names = [name for name in detectors if name not in tally.failed]
    if not names:
        raise InputError(
            f"choose: every detector failed, e.g. {next(iter(tally.failed.items()))}; see their needs."
        )
    auroc = {name: {k: value for by in rounds for k, value in by[name].items()} for name in names}
    found = {name: found[name] for name in names} if near else {}
    means = np.stack([tally.means[name] for name in names], axis=1)
    best = next(iter(_means(auroc, found)))
    return Choice(auroc, _certainty(names, means), tally.failed, found, _ahead(names, means, best))


class _Tally:
    """What the rounds leave behind: the mean AUROC of each detector on every resample, and who failed."""

    def __init__(self, names: Iterable[str]) -> None:
        self.means = {name: np.zeros(RESAMPLES) for name in names}
        self.failed: dict[str, str] = {}

    def add(
        self,
        table: Mapping[str, Comparison],
        known: Counts,
        unknown: Mapping[Any, tuple[Counts, Floats]],
    ) -> dict[str, dict[Any, float]]:
        """Add a round to the means, whose rows are drawn so, its unknowns with these weights; return its AUROCs."""
        scores, aurocs = {}, {}
        for name, row in table.items():
            if row.evaluation is None or row.scores is None:
                self.failed[name] = row.error
                continue
            scores[name] = row.scores
            aurocs[name] = {key: row.evaluation.ood[key].auroc for key in unknown}
        for key, (draws, weights) in unknown.items() if scores else ():
            of_known, of_unknown = (
                [s for s, _ in scores.values()],
                [u[key] for _, u in scores.values()],
            )
            redrawn = weights * redrawn_aurocs(of_known, of_unknown, known, draws)
            for name, column in zip(scores, redrawn.T, strict=True):
                self.means[name] += column
        return aurocs


def _without(detector: Detector, left_out: Any) -> Detector:
    """Return an unfitted copy of a detector whose head, if it has one, lacks the class that is left out."""
    made: Detector = clone(detector)
    head: Head | None = getattr(made, "head", None)
    if head is not None:
        kept = head.classes != left_out
        if kept.all():
            raise InputError(
                f"choose: the head has no class {left_out}; name its classes as the labels are."
            )
        made.set_params(head=Head(head.weight[kept], head.bias[kept], head.classes[kept]))
    return made


def _means(*kinds: Mapping[str, Mapping[Any, float]]) -> dict[str, float]:
    """Return the mean AUROC of each detector, best first; kinds of unknowns weigh the same."""
    used = [kind for kind in kinds if kind]
    means = {
        name: float(np.mean([np.mean(list(kind[name].values())) for kind in used]))
        for name in used[0]
    }
    return dict(sorted(means.items(), key=lambda item: -item[1]))


def _certainty(names: Sequence[str], means: Floats) -> dict[str, float]:
    """Return how often each detector has the best of the resampled means (resamples, detectors); ties are shared."""
    best = np.isclose(means, means.max(axis=1, keepdims=True), rtol=0, atol=TIE)
    shares = (best / best.sum(axis=1, keepdims=True)).mean(axis=0)
    return dict(zip(names, shares.tolist(), strict=True))


def _ahead(names: Sequence[str], means: Floats, best: str) -> dict[str, float]:
    """Return how often the resampled mean of each of the others exceeds that of the best; a tie is half."""
    beyond = means - means[:, [names.index(best)]]
    shares = np.where(np.abs(beyond) <= TIE, 0.5, beyond > 0).mean(axis=0)
    return {name: share for name, share in zip(names, shares.tolist(), strict=True) if name != best}


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
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)
