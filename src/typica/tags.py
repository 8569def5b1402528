"""What a detector or a rectifier needs and promises, in one record."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tags:
    """What a method needs and promises. Drives the checks, the documentation and the command line.

    reads: features, logits, or layers (features of several side by side). gives: what a rectifier
    makes of features, these or logits. uses_head: a head is used if given. keeps_rows: it holds
    training rows, and so does its file: to compare with when it scores, or to go on fitting.
    tolerance: how far results may stray from a float64 reference, relative to their scale,
    (float32, float64). The last four are for people: costs in n rows, m features, C classes, N
    training rows.
    """

    needs_head: bool = False
    uses_head: bool = False
    needs_labels: bool = False
    needs_fit: bool = True
    reads: str = "features"
    gives: str = "features"
    uses_labels: bool = False
    differentiable: bool = True
    keeps_rows: bool = False
    mergeable: bool = False
    saveable: bool = True
    tolerance: tuple[float, float] = (1e-6, 1e-12)
    fit_cost: str = ""
    score_cost: str = ""
    memory: str = ""
    reference: str = ""
