"""Explanations: why each row is accepted or rejected, loaded when `Detector.explain` is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray, as_features, as_floating, check_finite, to_numpy
from typica.cosines import cosines
from typica.detectors._banks import bank_labels, is_bank
from typica.detectors._matches import Matches
from typica.errors import about, argument
from typica.explanation import Explanation, Neighbour
from typica.linalg import unit_rows
from typica.verdicts import Verdicts, item_of
from typica.written_numbers import Level

if TYPE_CHECKING:
    from typica.detectors.base import Detector

EXAMPLES = 3  # known inputs that `explain` names


class _RowsToExplain(NamedTuple):
    """What is computed for all rows at once, before each is explained by itself."""

    verdicts: Verdicts
    matches: Matches | None
    percentiles: NDArray[np.float64] | None
    below: NDArray[np.float64] | None
    neighbours: list[tuple[Neighbour, ...]] | None


def explanations(
    detector: Detector, X: Any, levels: Mapping[str, Level | None], predicted: Any, bank: Any
) -> list[Explanation]:
    """Return what `Detector.explain` does; levels: the alpha, tpr and confidence of `judge`."""
    Z = as_floating(to_numpy(detector._ready(X)))
    rows = X if hasattr(X, "columns") else Z  # a data frame's columns are known by name
    verdicts, matches = detector._judge(rows, **levels, predicted=predicted)
    known = _RowsToExplain(
        verdicts=verdicts,
        matches=matches,
        percentiles=_percentiles(detector, verdicts, predicted),
        below=_percentiles(detector, verdicts, predicted, ties=False),
        neighbours=None if bank is None else _neighbours(detector, Z, bank),
    )
    return [_explained(detector, Z[i], i, known) for i in range(len(Z))]


def _explained(detector: Detector, z: AnyArray, i: int, known: _RowsToExplain) -> Explanation:
    verdicts = known.verdicts
    one = verdicts[i]
    matches = known.matches
    parts = () if matches is None else detector._contributions(z, int(matches.nearest[i]))
    neighbours = () if known.neighbours is None else known.neighbours[i]
    explanation = Explanation(
        score=one.score,
        typical=None if verdicts.typical is None else bool(verdicts.typical[i]),
        threshold=item_of(verdicts.threshold, i),
        percentile=item_of(known.percentiles, i),
        nearest=one.nearest,
        similarity=item_of(verdicts.similarity, i),
        runner_up=one.runner_up,
        runner_up_similarity=item_of(verdicts.runner_up_similarity, i),
        margin=one.margin,
        contributions=parts,
        p_value=one.p_value,
        examples=tuple(neighbour.row for neighbour in neighbours),
        note=detector._note(z),
        terms=detector._terms(z),
        below=item_of(known.below, i),
        neighbours=neighbours,
    )
    names = getattr(detector, "feature_names_in_", None)
    return explanation if names is None else explanation.named(names.tolist())


def _percentiles(
    detector: Detector, verdicts: Verdicts, predicted: Any, *, ties: bool = True
) -> NDArray[np.float64] | None:
    calibration = getattr(detector, "calibration_", None)
    if calibration is None:
        return None
    if not calibration.by_class:
        return np.asarray(calibration.percentiles(verdicts.score, ties=ties))
    classes = verdicts.nearest if predicted is None else to_numpy(predicted)
    return np.asarray(calibration.percentiles(verdicts.score, classes, ties=ties))


def _neighbours(detector: Detector, Z: AnyArray, bank: Any) -> list[tuple[Neighbour, ...]]:
    """Return the rows of `bank` with the largest cosines to each row of Z."""
    with about(argument("bank")):
        rows = detector._ready(bank) if is_bank(bank) else bank
        known = as_floating(to_numpy(as_features(rows, Z.shape[1])))
        check_finite(known)
    directed = np.flatnonzero(known.any(axis=1))  # a zero row is near nothing
    similar = cosines(Z, unit_rows(known[directed].astype(np.float64)).astype(Z.dtype))
    nearest = np.argsort(-similar, axis=1, kind="stable")[:, :EXAMPLES]
    labels = bank_labels(bank) if is_bank(bank) else None
    names = getattr(bank, "names", None)
    found = []
    for cosines_of_row, places in zip(similar, nearest, strict=True):
        pairs = [(int(directed[place]), float(cosines_of_row[place])) for place in places]
        found.append(tuple(_neighbour(row, cosine, labels, names) for row, cosine in pairs))
    return found


def _neighbour(
    row: int, cosine: float, labels: AnyArray | None, names: Sequence[str] | None
) -> Neighbour:
    label = None if labels is None else labels[row : row + 1].tolist()[0]
    return Neighbour(row, cosine, label, None if names is None else names[row])
