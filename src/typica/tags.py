"""What a detector or a rectifier needs and promises, in one record."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tags:
    """What a method needs and promises. Drives the checks, the documentation and the command line.

    Parameters
    ----------
    needs_head, uses_head
        Whether it cannot work without a head, and whether it uses one if given.
    needs_labels, uses_labels
        Whether `fit` needs labels, and whether it uses them if given.
    needs_fit
        Whether it must be fitted before it can score.
    reads
        "features", "logits", or "layers" (features of several layers side by side).
    gives
        What a rectifier makes of features: "features" or "logits".
    differentiable
        Whether gradients of the score with respect to the input are of use.
    keeps_rows
        Whether it, and its file, hold training rows: to compare with, or to go on fitting.
    mergeable
        Whether `partial_fit` and `merge` give what one `fit` on all the data gives.
    saveable
        Whether `save` can write it to a file.
    tolerance
        How far results may be from a float64 reference, relative to their scale: (float32,
        float64).
    fit_cost, score_cost, memory
        Costs in n rows, m features, C classes and N training rows, for people to read.
    reference
        The paper, for people to read.
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
