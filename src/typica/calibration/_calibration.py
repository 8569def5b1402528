"""What a detector decides by: the scores of held-out in-distribution inputs, by group.

    p(x) = (1 + #{calibration scores <= score(x)}) / (n + 1)

If x comes from where the n calibration inputs come from (all n + 1 exchangeable), P(p(x) <= alpha)
<= alpha, whatever the network and the detector: reject where p <= alpha. This is the same as
rejecting below the k-th smallest calibration score, k = floor((n + 1) alpha). The probability is
over the calibration draw as well as over x. Vovk, Gammerman, Shafer: Algorithmic Learning in a
Random World, 2005; Laxhammar, Falkman: Inductive Conformal Anomaly Detection, 2015.
docs/guarantees.md says what is guaranteed, and when it is not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray
from typica.as_json import json_number
from typica.calibration._groups import (
    EVERYTHING,
    Classes,
    check_groups,
    group_rows,
    predicted_classes,
)
from typica.calibration._levels import Levels
from typica.calibration._mergeable import check_mergeable
from typica.calibration._sample import LIMIT, ScoreSample
from typica.calibration._scores import check_scores, check_threshold
from typica.calibration._sources import (
    SeenRows,
    Span,
    joined_rows,
    joined_sources,
    read_seen,
    source_name,
)
from typica.calibration._threshold import guaranteed_rank, ties_at
from typica.calibration._warnings import about_ties, say_endless, say_too_few, warn_of_unknown
from typica.checks import check_share, count, optional
from typica.errors import CalibrationWarning, InputError, border, warn
from typica.fdr import benjamini_hochberg, storey
from typica.keys import row_keys
from typica.labels import class_text
from typica.store import State, storable
from typica.written_numbers import Level


@storable("calibrated_scores")
class Calibration:
    """The calibration scores by group, and the thresholds, p-values and discoveries they give.

    Methods take `classes`, the predicted class of each score, or None if not calibrated by class.

    Parameters
    ----------
    levels
        The alpha and confidence of the thresholds; None is alpha=0.05.
    by_class
        Compare an input only with calibration inputs of the same group of predicted classes.
    groups
        {class: group}; a class that is not in it is a group of its own.
    limit
        How many scores a group keeps at most.
    scored_by
        The fingerprint of the estimator that made the scores.

    >>> calibration = Calibration(Levels.of(alpha=0.1))
    >>> calibration.add(np.arange(1.0, 100.0)).threshold
    10.0
    >>> calibration.p_values(np.array([0.5, 50.0]))
    array([0.01, 0.51])
    """

    @border
    def __init__(
        self,
        levels: Levels | None = None,
        *,
        by_class: bool = False,
        groups: Mapping[Any, str] | None = None,
        limit: int = LIMIT,
        scored_by: str = "",
    ) -> None:
        if levels is not None and not isinstance(levels, Levels):
            raise InputError(f"levels={levels!r} are not Levels; pass e.g. Levels.of(alpha=0.05).")
        check_groups(groups, by_class)
        count().check("limit", limit)
        self.levels = levels or Levels.of()
        self.by_class = by_class
        self.taxonomy = {class_text(name): str(group) for name, group in (groups or {}).items()}
        self.limit = limit
        self.scored_by = scored_by
        self.samples: dict[str, ScoreSample] = {}
        self.sources: dict[str, SeenRows] = {}  # which rows of each were seen
        self.is_of_half = False  # of the rows, because the other half made the scores comparable
        self._thresholds: dict[str, float] | None = None

    @border
    def add(
        self,
        scores: Any,
        classes: Any = None,
        source: str = "",
        start: int | None = None,
        left_out: Any = (),
    ) -> Self:
        """Take in a batch of scores.

        Parameters
        ----------
        scores, classes
            One score and, if calibrated by class, one predicted class per row.
        source, start
            The name of the data, and the number of its first row here; None continues after the
            rows that were added before.
        left_out
            The places, counted from `start`, of rows without a score.
        """
        scores, classes = self._checked(scores, classes)
        optional(count(0)).check("start", start)
        source = source_name(source)
        seen = self.sources.get(source, SeenRows())
        first = seen.end if start is None else start
        left_out = _places(left_out, len(scores))
        n = len(scores) + len(left_out)
        spans = joined_rows(source, seen, SeenRows.of(Span(first, first + n)))
        keys = np.delete(row_keys(source, first, n), left_out)
        for group, rows in group_rows(classes, self.taxonomy):
            self._sample(group).add(scores[rows], keys[rows])
        self.sources[source] = spans
        self._thresholds = None
        return self

    def pass_over(self, n: int, source: str = "") -> Self:
        """Count the next n rows of `source` as seen, although they gave no scores."""
        source = source_name(source)
        seen = self.sources.get(source, SeenRows())
        self.sources[source] = seen.joined(SeenRows.of(Span(seen.end, seen.end + n)))
        return self

    @border
    def merge(self, other: Calibration) -> Self:
        """Take in the scores of `other`, made with an equal detector; `other` stays as it is.

        A row of a named source may be in only one of the two, or it would count twice.
        """
        if not isinstance(other, Calibration):
            raise InputError(f"got {type(other).__name__}; pass another Calibration.")
        check_mergeable(self, other)
        sources = joined_sources(self.sources, other.sources)
        for group, sample in other.samples.items():
            self._sample(group).merge(sample)
        self.sources = sources
        self._thresholds = None
        return self

    @border
    def limit_to(self, limit: int) -> Self:
        """Keep at most `limit` scores per group from now on, 1 or more.

        Once scores have been dropped, it cannot grow: what is kept would not be a uniform sample.
        """
        count().check("limit", limit)
        if limit > self.limit and any(sample.n > sample.kept for sample in self.samples.values()):
            raise InputError(
                f"limit={limit} exceeds {self.limit}, at which scores were dropped already; "
                "calibrate again with the larger limit."
            )
        self.limit = int(limit)
        for sample in self.samples.values():
            sample.limit_to(limit)
        self._thresholds = None
        return self

    # What it knows

    def __repr__(self) -> str:
        by_class = ", by class" if self.by_class else ""
        return f"Calibration: {self.n} scores, keeps {100 * self.tpr:g} %{by_class}"

    @property
    def n(self) -> int:
        """The number of calibration inputs."""
        return sum(sample.n for sample in self.samples.values())

    @property
    def tpr(self) -> float:
        """The share of in-distribution inputs that is kept, 1 - alpha."""
        return float(1 - self.levels.alpha)

    @property
    def k(self) -> int:
        """The rank of the threshold among the calibration scores."""
        return guaranteed_rank(self._only().kept, self.levels.alpha, self.levels.confidence)

    @property
    def threshold(self) -> float:
        """The score at or above which an input is accepted."""
        if not self._only().n:
            raise AttributeError("there are no calibration scores; add some")
        return self.thresholds()[EVERYTHING]

    @property
    def scores(self) -> NDArray[np.float64]:
        """All the scores that are kept, group after group, each ascending."""
        return np.concatenate([np.empty(0), *(each.ordered for each in self.samples.values())])

    @property
    def sample_of_all(self) -> NDArray[np.float64]:
        """A uniform sample of the scores of all groups together, at most `limit` of them.

        Past the limit a common class keeps a smaller share of its scores than a rare one, so that
        `scores` no longer has the mix of classes of the data. The smallest keys of all rows do, and
        how many of them are taken does not depend on a class.
        """
        if self.n <= self.limit:
            return self.scores
        whole = ScoreSample(self.limit)
        for sample in self.samples.values():
            whole.add(sample.ordered, sample.keys)
        return whole.ordered

    def to_dict(self, levels: Levels | None = None) -> dict[str, Any]:
        """Return a summary as plain JSON types: per group n, kept, k and threshold."""
        levels = levels or self.levels
        thresholds = self.thresholds(levels)
        groups = {}
        for group, sample in sorted(self.samples.items()):
            groups[group] = {
                "n": sample.n,
                "kept": sample.kept,
                "k": guaranteed_rank(sample.kept, levels.alpha, levels.confidence),
                "threshold": json_number(thresholds[group]),
            }
        return {"n": self.n, "by_class": self.by_class, **levels.to_dict(), "groups": groups}

    # What it decides

    def thresholds(self, levels: Levels | None = None) -> dict[str, float]:
        """Return the threshold of each group: p <= alpha below it.

        Warns if a group is too small to reject anything, and raises if a confidence was asked for.
        """
        if levels is not None and levels != self.levels:
            return self._thresholds_at(levels)
        if self._thresholds is None:
            self._thresholds = self._thresholds_at(self.levels)
        return dict(self._thresholds)

    def ties(self, levels: Levels | None = None) -> str | None:
        """Return what to say of thresholds that keep too much because scores are equal, or None.

        That is so if fewer than k / 2 - 1 scores are below a threshold of rank k, or if all are
        equal: what is rejected then is far less than was asked for.
        """
        levels = levels or self.levels
        found = []
        for group, sample in self.samples.items():
            rank = guaranteed_rank(sample.kept, levels.alpha, levels.confidence)
            found.append((ties_at(rank, sample.ordered) / max(sample.kept, 1), group, rank))
        found = sorted((one for one in found if one[0]), reverse=True)
        if not found:
            return None
        _, worst, rank = found[0]
        groups = [group for _, group, _ in found] if self.by_class else []
        return about_ties(levels, rank, self.samples[worst].ordered, groups)

    def offsets(self, scores: AnyArray, classes: Classes, levels: Levels | None = None) -> AnyArray:
        """Return the threshold of each score's group, in the precision of the scores.

        A group without calibration scores rejects nothing.
        """
        thresholds = self.thresholds(levels)
        offsets = np.full(len(scores), -math.inf, dtype=scores.dtype)
        groups = []
        for group, rows in group_rows(classes, self.taxonomy):
            offset = thresholds.get(group, -math.inf)
            check_threshold(offset, scores.dtype, np.finfo(scores.dtype).min)
            offsets[rows] = offset
            groups.append(group)
        if len(scores):
            warn_of_unknown(groups, thresholds)
        return offsets

    @border
    def p_values(
        self, scores: Any, classes: Any = None, rng: np.random.Generator | None = None
    ) -> NDArray[np.float64]:
        """Return p-values, each against its own group; 1 (or U) for a group without scores."""
        scores, classes = self._checked(scores, classes)
        return self._by_group(scores, classes, lambda sample, part: sample.p_values(part, rng))

    @border
    def percentiles(
        self, scores: Any, classes: Any = None, *, ties: bool = True
    ) -> NDArray[np.float64]:
        """Return the percentage of the calibration scores of its group at or below each score.

        ties: whether those equal to it count, or only those below.
        """
        scores, classes = self._checked(scores, classes)
        side: Literal["left", "right"] = "right" if ties else "left"

        def percentage(sample: ScoreSample, part: AnyArray) -> NDArray[np.float64]:
            return np.asarray(100.0 * sample.count(part, side) / max(sample.kept, 1))

        return self._by_group(scores, classes, percentage)

    @border
    def discoveries(
        self,
        scores: Any,
        classes: Any = None,
        fdr: Level = 0.1,
        method: Literal["bh", "storey"] = "bh",
        lam: Level = 0.5,
    ) -> NDArray[np.bool_]:
        """Return True for the scores out of distribution, of which a share `fdr` may be wrong.

        Parameters
        ----------
        scores, classes
            One score and, if calibrated by class, one predicted class per row.
        fdr
            The false discovery rate.
        method
            "bh" or "storey"; see `typica.fdr`.
        lam
            Of "storey" only; rounded down to a value that p-values can have.
        """
        if method not in ("bh", "storey"):
            raise InputError(f"method={method!r}; pass 'bh' or 'storey'.")
        if method == "storey" and self.by_class:
            raise InputError(
                "'storey' needs one calibration set for all; use 'bh', or by_class=False."
            )
        share = check_share(lam, "lam")
        p = self.p_values(scores, classes)
        if method == "bh":
            return benjamini_hochberg(p, fdr)
        # A lam that the p-values can have.
        steps = self._only().kept + 1
        return storey(p, fdr, f"{max(1, math.floor(share * steps))}/{steps}")

    # How it is done

    def _checked(self, scores: Any, classes: Any) -> tuple[AnyArray, Classes]:
        """Return scores and, if calibrated by class, their classes."""
        checked = check_scores(scores)
        if not self.by_class:
            if classes is not None:
                raise InputError("classes are for by_class=True; leave them out.")
            return checked, None
        if classes is None:
            raise InputError("calibrated by class; pass the predicted class of each score.")
        named = predicted_classes(classes)
        if named.shape != checked.shape:
            raise InputError(
                f"classes of shape {named.shape} for {len(checked)} scores; pass one per score."
            )
        return checked, named

    def _sample(self, group: str) -> ScoreSample:
        return self.samples.setdefault(group, ScoreSample(self.limit))

    def _only(self) -> ScoreSample:
        """Return the sample of all scores, if not calibrated by class."""
        if self.by_class:
            raise AttributeError(
                "calibrated by class: there is one threshold per group; see `thresholds()`, or "
                "`offsets_` of the detector"
            )
        return self.samples.get(EVERYTHING) or ScoreSample(self.limit)

    def _by_group(
        self,
        scores: AnyArray,
        classes: Classes,
        kernel: Callable[[ScoreSample, AnyArray], NDArray[np.float64]],
    ) -> NDArray[np.float64]:
        values = np.empty(len(scores))
        for group, rows in group_rows(classes, self.taxonomy):
            sample = self.samples.get(group) or ScoreSample(self.limit)
            values[rows] = kernel(sample, scores[rows])
        return values

    def _thresholds_at(self, levels: Levels) -> dict[str, float]:
        found = {}
        helpless = []
        for group, sample in self.samples.items():
            k = guaranteed_rank(sample.kept, levels.alpha, levels.confidence)
            found[group] = sample.threshold(k)
            if k == 0:
                helpless.append(group)
            say_endless(sample.ordered, k, group if self.by_class else None)
        if helpless and levels.alpha:
            group = min(helpless, key=lambda name: self.samples[name].kept)
            named = group if self.by_class else None
            say_too_few(levels, self.samples[group].kept, named, self.is_of_half)
        ties = self.ties(levels)
        if ties is not None:
            warn(ties, CalibrationWarning)
        return found

    def state(self) -> State:
        """Return what is to be stored."""
        confidence = self.levels.confidence
        half = {"is_of_half": True} if self.is_of_half else {}
        return {
            "alpha": str(self.levels.alpha),
            "confidence": None if confidence is None else str(confidence),
            "by_class": self.by_class,
            "taxonomy": [list(pair) for pair in self.taxonomy.items()],
            "limit": self.limit,
            "fingerprint": self.scored_by,
            "sources": [[source, spans.state()] for source, spans in self.sources.items()],
            "samples": [list(pair) for pair in self.samples.items()],
            **half,
        }

    @classmethod
    def from_state(cls, state: State) -> Calibration:
        """Rebuild the calibration from what was stored."""
        made = cls(
            Levels.of(state["alpha"], confidence=state["confidence"]),
            by_class=state["by_class"],
            groups=dict(state["taxonomy"]) if state["by_class"] else None,
            limit=state["limit"],
            scored_by=state["fingerprint"],
        )
        made.sources = {source: read_seen(spans) for source, spans in state["sources"]}
        made.samples = dict(state["samples"])
        made.is_of_half = bool(state.get("is_of_half", False))
        for group, sample in made.samples.items():
            if not isinstance(sample, ScoreSample):
                raise TypeError(f"the scores of {group} are a {type(sample).__name__}")
        for group in (*made.samples, *made.taxonomy, *made.taxonomy.values(), *made.sources):
            if not isinstance(group, str):
                raise TypeError(f"the name {group!r} of a group or source is not a text")
        return made

    def try_parts(self) -> None:
        """Refuse a file's calibration that has no scores, or that accepts everything."""
        scored = self.n if self.by_class else self._only().n
        if not scored:
            raise ValueError("a calibration without scores")
        for sample in self.samples.values():
            k = guaranteed_rank(sample.kept, self.levels.alpha, self.levels.confidence)
            say_endless(sample.ordered, k)


def _places(left_out: Any, others: int) -> NDArray[np.int64]:
    """Return the places of rows without a score, beside so many with one."""
    places = np.asarray(left_out)
    if not places.size:
        return np.empty(0, dtype=np.int64)
    n = others + places.size
    inside = places.dtype.kind in "iu" and places.min() >= 0 and places.max() < n
    if not inside or places.ndim != 1 or len(np.unique(places)) < len(places):
        raise InputError(f"left_out names no distinct places; pass integers from 0 to {n - 1}.")
    return places
