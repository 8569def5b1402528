"""How far the numbers of a benchmark may be off: 95 % intervals of the bootstrap.

ID and OOD inputs are drawn again, with replacement, as many as there are; sets are taken whole. The
spread is then the one that other inputs of the same kind would show.

FPR needs no rows to be drawn. Among n drawn ID scores, the one of rank k is the score at the place
floor(n U) with U ~ Beta(k, n - k + 1). Of m drawn OOD scores Binomial(m, a) are accepted, a being
the share at or above it. That is the bootstrap's own distribution. AUROC: see `_resampling`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from typica.bench._measures import Interval, Measure, Measures
from typica.bench._record import Record, Row, Stated
from typica.bench._resampling import Counts, Floats, redrawn_aurocs, row_draws
from typica.bench._runs import Scores
from typica.written_numbers import exact

RESAMPLES = 500
AT_ONCE = 100  # resamples whose rows are held at a time
ENDS = (0.025, 0.975)
Drawn = Mapping[str, Mapping[str, Floats]]  # OOD set -> metric -> its value on every resample


def with_intervals(record: Record, scores: Mapping[str, Scores]) -> Record:
    """Return the record with an interval for FPR and AUROC of every row, by OOD set and on average.

    scores: those behind each row.
    """
    if not record.rows:
        return record
    drawn = resampled(scores, record.protocol)
    rows = {name: _with_intervals(record, name, drawn[name]) for name in record.rows}
    return replace(record, rows=rows)


def _with_intervals(record: Record, name: str, drawn: Drawn) -> Row:
    row, common = record.rows[name], record.in_common
    far = [ood for ood in row.ood if ood not in record.near]
    ood = {}
    for key, found in row.ood.items():
        ood[key] = replace(found, measures=_surely(found.measures, drawn, [key]))
    return replace(
        row,
        ood=ood,
        average=_surely(row.average, drawn, row.ood),
        near=_surely(row.near, drawn, record.near),
        far=_surely(row.far, drawn, far),
        common=_surely(row.means(common), drawn, common) if len(common) < len(row.ood) else {},
    )


def _surely(measures: Measures, drawn: Drawn, sets: Iterable[str]) -> dict[str, Measure]:
    """Return measures of the mean over these OOD sets with their intervals."""
    chosen = list(sets)
    found = dict(measures)
    for metric in ("fpr", "auroc"):
        if metric in measures and chosen:
            means = np.mean([drawn[name][metric] for name in chosen], axis=0)
            found[metric] = replace(measures[metric], interval=interval(means))
    return found


def interval(values: Floats) -> Interval:
    """Return the ends between which 95 % of the values lie.

    >>> interval(np.arange(1001.0))
    (25.0, 975.0)
    """
    low, high = np.quantile(values, ENDS)
    return float(low), float(high)


def resampled(scores: Mapping[str, Scores], protocol: Stated) -> dict[str, Drawn]:
    """Return FPR and AUROC of each row on each OOD set, on every resample."""
    aurocs = _aurocs(list(scores.values()))
    drawn: dict[str, Drawn] = {}
    for name, by_set in zip(scores, aurocs, strict=True):
        fprs = _fprs(scores[name], protocol)
        drawn[name] = {ood: {"fpr": fprs[ood], "auroc": by_set[ood]} for ood in fprs}
    return drawn


def _rng(name: str) -> np.random.Generator:
    """Return the generator that draws from a set; it depends on the set's name only."""
    digest = hashlib.sha256(name.encode()).digest()
    return np.random.default_rng(np.frombuffer(digest, dtype="<u4").tolist())


def _fprs(scores: Scores, protocol: Stated) -> dict[str, Floats]:
    known = np.sort(scores.test)
    n = len(known)
    k = rejected_rank(n, protocol) + 1
    places = np.floor(n * _rng("").beta(k, n - k + 1, RESAMPLES)).astype(np.int64)
    thresholds = known[np.minimum(places, n - 1)]
    found = {}
    for name, strange in scores.ood.items():
        m = len(strange)
        below = np.searchsorted(np.sort(strange), thresholds, side="left")
        found[name] = _rng(name).binomial(m, 1 - below / m) / m
    return found


def rejected_rank(n: int, protocol: Stated) -> int:
    """Return how many of n ID scores lie below the threshold, nearly so if it is interpolated.

    >>> rejected_rank(100, Stated(tpr=0.95)), rejected_rank(10, Stated(tpr=0.95))
    (5, 0)
    """
    to_reject = (1 - exact(protocol.tpr)) * n
    if protocol.convention == "rank":
        return min(round(to_reject), n - 1)
    return math.floor(to_reject)


def _aurocs(scores: Sequence[Scores]) -> list[dict[str, Floats]]:
    """Return the AUROC of each row on each OOD set on every resample, rows drawn alike for all."""
    known = [found.test for found in scores]
    of_known, of_sets = _rng(""), {name: _rng(name) for name in scores[0].ood}
    parts: dict[str, list[Floats]] = {name: [] for name in of_sets}
    for _ in range(RESAMPLES // AT_ONCE):
        known_draws = _draws(len(known[0]), of_known)
        for name, rng in of_sets.items():
            strange = [found.ood[name] for found in scores]
            draws = _draws(len(strange[0]), rng)
            parts[name].append(redrawn_aurocs(known, strange, known_draws, draws))
    joined = {name: np.concatenate(blocks) for name, blocks in parts.items()}
    return [_of_row(joined, i) for i in range(len(scores))]


def _of_row(joined: Mapping[str, Floats], i: int) -> dict[str, Floats]:
    """Return the AUROCs of one row of the record, by OOD set."""
    return {name: aurocs[:, i] for name, aurocs in joined.items()}


def _draws(n: int, rng: np.random.Generator) -> Counts:
    return row_draws(np.zeros(n), rng, AT_ONCE)
