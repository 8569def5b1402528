"""ASH, activation shaping: each row keeps its largest activations alone.

    P   rectified(z)_j = z_j            for j in T, else 0
    B   rectified(z)_j = Σ_i z_i / |T|  for j in T, else 0
    S   rectified(z)_j = z_j exp(r)     for j in T, else 0,   r = Σ_i z_i / Σ_{i in T} z_i

T holds the k largest activations of z, those above the percentile p of the row: k = m - round(m p /
100), at least 1. Djurisic, Bozanic, Ashok, Liu: Extremely Simple Activation Shaping for
Out-of-Distribution Detection, ICLR 2023. The default, S at p = 90, is the authors' for ImageNet;
there they take p = 65 for B and p = 60 for P.

The paper takes activations after a ReLU. Here negative activations count as zero, which is the same
after a ReLU. An activation of zero is never in T; where the k-th largest occurs more than once, all
of its kind are in T, and B divides by their number, but the sum over T in S is over k of them (the
authors' code keeps exactly k, arbitrary ones of these, and in B fills zeros and divides by k). A
row without positive activations becomes zero. Nothing is learnt. Transform: one selection per row.
"""

from __future__ import annotations

from typica.arrays import Array, namespace
from typica.checks import choice, optional, percentile
from typica.largest import k_largest
from typica.linalg import row_unit, sum_in_units
from typica.rectify._activations import kept_count, positive_part, sharpening
from typica.rectify.base import SameWidth
from typica.store import storable
from typica.tags import Tags

VARIANTS = {"p": 60, "b": 65, "s": 90}  # and the percentiles that the authors take on ImageNet


def shape(Z: Array, percentile: float, variant: str) -> Array:
    """Return the rows of Z (n, m) shaped by a variant of ASH.

    >>> import numpy as np
    >>> shape(np.array([[1.0, 2.0, 3.0, 4.0]]), 50, "p")
    array([[0., 0., 3., 4.]])
    >>> shape(np.array([[1.0, 2.0, 3.0, 4.0]]), 50, "b")
    array([[0., 0., 5., 5.]])
    """
    xp = namespace(Z)
    P = positive_part(Z)
    top = k_largest(P, kept_count(Z.shape[1], percentile))
    keep = (xp.min(top, axis=1, keepdims=True) <= P) & (P > 0)
    if variant == "b":
        count = xp.sum(xp.astype(keep, Z.dtype), axis=1, keepdims=True)
        unit = row_unit(top)
        mean = sum_in_units(P, unit) / xp.where(count > 0, count, xp.ones_like(count))
        P = unit * mean * xp.ones_like(P)
    elif variant == "s":
        P = P * sharpening(P, top)
    return xp.where(keep, P, xp.zeros_like(P))


@storable("ash")
class ASH(SameWidth):
    """Activation shaping; ready without `fit`.

    variant: "s", "b" or "p"; percentile: None for the authors' (90, 65, 60).

    >>> import numpy as np
    >>> ASH(variant="b", percentile=50).transform(np.array([[1.0, 2.0, 3.0, 4.0]])).tolist()
    [[0.0, 0.0, 5.0, 5.0]]
    """

    tags = Tags(
        needs_fit=False,
        fit_cost="none",
        score_cost="O(m)",
        memory="none",
        reference="Djurisic, Bozanic, Ashok & Liu 2023, ICLR",
    )
    params = {
        "variant": choice(*VARIANTS, advice="choose 's', 'b' or 'p'"),
        "percentile": optional(percentile()),
    }

    def __init__(self, variant: str = "s", percentile: float | None = None) -> None:
        self.variant = variant
        self.percentile = percentile

    def _rectify(self, Z: Array) -> Array:
        percentile = VARIANTS[self.variant] if self.percentile is None else self.percentile
        return shape(Z, percentile, self.variant)
