"""The metrics of one ID set against one OOD set, or against several, as records."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from typica.as_json import json_number
from typica.cards import card
from typica.errors import InputError, border, counted
from typica.metrics._names import METRICS

MEASURES: Final = (*METRICS, "threshold")


@dataclass(frozen=True, slots=True, repr=False)
class Result:
    """The metrics of one ID set against one OOD set; every share is a fraction of 1.

    Attributes
    ----------
    fpr
        The share of OOD that is accepted where `tpr` of ID is (see `CONVENTIONS`).
    auroc
        P(id > ood) + P(id == ood) / 2.
    aupr_in, aupr_out
        Average precision, Σ (R_k − R_{k−1}) P_k, with ID or OOD as the positive class.
    detection_error
        The minimum over all thresholds of (share of ID rejected + share of OOD accepted) / 2.
    threshold
        The score at or above which an input is accepted; infinite where that score is.
    n_id, n_ood, tpr, convention
        The numbers of scores, and what was asked for.
    intervals
        None, or (low, high) for each of the metrics and the threshold.

    >>> from typica import evaluate
    >>> evaluate([2.0, 3.0], [1.0])
    2 ID, 1 OOD: FPR95 0 %, AUROC 100 %, AUPR-in 100 %, AUPR-out 100 %, Det. error 0 %
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

        >>> from typica import evaluate
        >>> evaluate([2.0, 3.0], [1.0]).to_dict()["threshold"]
        2.0
        """
        record: dict[str, Any] = {"n": self.n_ood}
        record |= {name: json_number(getattr(self, name)) for name in MEASURES}
        if self.intervals is not None:
            record["intervals"] = {
                name: [json_number(low), json_number(high)]
                for name, (low, high) in self.intervals.items()
            }
        return record

    def __repr__(self) -> str:
        shares = []
        for name, metric in METRICS.items():
            shares.append(f"{metric.title(self.tpr)} {100 * getattr(self, name):.4g} %")
        return f"{self.n_id} ID, {self.n_ood} OOD: {', '.join(shares)}"

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
    """The metrics of one detector on one ID set and any number of OOD sets.

    Attributes
    ----------
    detector
        Its name.
    tpr, convention
        What "FPR" means here, the same for all sets; see `CONVENTIONS`.
    n_id
        The number of ID scores.
    ood
        A `Result` for each OOD set, by name.

    >>> from typica.metrics import evaluate_many
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

    @border
    def __post_init__(self) -> None:
        found = {(result.tpr, result.n_id, result.convention) for result in self.ood.values()}
        if found != {expected := (self.tpr, self.n_id, self.convention)}:
            what = f"ood has results of (tpr, n_id, convention) {sorted(found)}"
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
        sets = counted(len(self.ood), "OOD set")
        average = self.average
        fpr = f"{METRICS['fpr'].title(self.tpr)} {100 * average['fpr']:.2f} %"
        auroc = f"{METRICS['auroc'].title()} {100 * average['auroc']:.2f} %"
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
