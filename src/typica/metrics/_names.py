"""The metrics by name: heading, which way is better, and what "FPR at tpr" means."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

CONVENTIONS: Final[Mapping[str, str]] = {
    "first": "The threshold is the largest that accepts at least tpr of the ID scores, and FPR the "
    "share of OOD scores that it accepts.",
    "interpolated": "FPR is linearly interpolated on the ROC curve at exactly tpr, with the "
    "threshold of 'first'; where several points have exactly tpr, both are those of the largest "
    "FPR, as in numpy.interp.",
    "rank": "The threshold is sorted_id[round((1 - tpr) * n)], ascending, halves rounded to even, "
    "at most the last, and FPR the share of OOD scores at or above it (above it in DICE's code).",
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
    """A metric: its name in records, its heading, and which way is better.

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


# Of a classifier and of how its mistakes are ranked, which no Result has.
ACCURACY: Final = Metric("accuracy", "accuracy", "higher")
AURC: Final = Metric("aurc", "AURC ‰", "lower")
E_AURC: Final = Metric("e_aurc", "E-AURC ‰", "lower")
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
