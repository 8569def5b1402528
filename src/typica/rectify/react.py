"""ReAct: activations above a percentile of those seen in training are cut down to it.

    rectified(z)_j = min(z_j, c)
    c = percentile p of all training activations, over all rows and features

Sun, Guo, Li: ReAct: Out-of-distribution Detection With Rectified Activations, NeurIPS 2021; p = 90
as there. The percentile is exact for up to 2^25 activations; of more data, that many are drawn,
always the same ones. Which p is good depends on the network: on the CIFAR-10 features of the page
on ReAct p = 90 is the last of 54 methods on SVHN and textures (AUROC 66.13 and 69.71), where p = 98
is not (95.42 and 92.58). Fit: one selection. Transform: one minimum.
"""

from __future__ import annotations

import numpy as np

from typica.arrays import Array, Labels, Rows, like, namespace
from typica.checks import percentile
from typica.rectify._percentiles import percentiles
from typica.rectify.base import SameWidth
from typica.store import storable
from typica.tags import Tags


def truncate(Z: Array, ceiling: float) -> Array:
    """Return min(Z, ceiling).

    >>> truncate(np.array([[0.5, 3.0]]), 1.0)
    array([[0.5, 1. ]])
    """
    return namespace(Z).minimum(Z, like(np.array([ceiling]), Z))


@storable("react")
class ReAct(SameWidth):
    """Cut activations at a percentile of the training activations, `threshold_`.

    >>> train = np.arange(101.0).reshape(-1, 1)
    >>> ReAct(percentile=90).fit(train).transform(np.array([[50.0], [95.0]])).tolist()
    [[50.0], [90.0]]
    """

    tags = Tags(
        fit_cost="O(N m)",
        score_cost="O(m)",
        memory="O(1)",
        reference="Sun, Guo & Li 2021, NeurIPS",
    )
    params = {"percentile": percentile()}
    threshold_: float

    def __init__(self, percentile: float = 90) -> None:
        self.percentile = percentile

    def _learn(self, Z: Rows, labels: Labels | None) -> None:
        self.threshold_ = float(percentiles(Z, [self.percentile])[0])

    def _rectify(self, Z: Array) -> Array:
        return truncate(Z, self.threshold_)
