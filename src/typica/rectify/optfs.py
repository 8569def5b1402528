"""OptFS, optimal feature shaping: activations are weighted by what their size adds to logits.

    rectified(z)_j = theta_b z_j,   b = the bin in which z_j lies; 0 outside all bins
    theta_b = mean over the training rows of sum_{j: z_j in b} w_kj z_j, divided by the root mean
              square of all theta, k = the class that the head predicts

with w_k the head's row of class k and 100 bins of one width between the 0.1 % and the 99.9 %
quantile of all training activations. Put Energy behind it. Zhao, Xu, Gupta, Asthana, Zheng, Gould:
Towards Optimal Feature-Shaping Methods for Out-of-Distribution Detection, ICLR 2024, which leaves
the scale of theta open: here it is such that activations keep about theirs. The quantiles are exact
for up to 2^25 activations; of more data, that many are drawn, always the same ones. Fit: two passes
(hence no merging), with a product with the head. Transform: one look-up per activation.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from typica.arrays import Array, Labels, Rows, as_floating, like, namespace, row_blocks
from typica.checks import count
from typica.errors import InputError
from typica.head import HEAD, Head
from typica.rectify._percentiles import percentiles
from typica.rectify.base import SameWidth
from typica.store import storable
from typica.tags import Tags

TAIL = 0.1  # percent of the activations at either end that lie in no bin


def activation_bins(Z: Array, low: float, high: float, bins: int) -> Array:
    """Return in which of OptFS's bins each activation lies, from 1; 0 for none.

    >>> activation_bins(np.array([[-1.0, 0.0, 0.9, 2.0]]), 0.0, 2.0, bins=2)
    array([[0, 1, 1, 0]])
    """
    xp = namespace(Z)
    places = xp.floor((Z - low) * (bins / (high - low)))
    inside = (places >= 0) & (places < bins)
    return xp.astype(xp.where(inside, places + 1, xp.zeros_like(places)), xp.int64)


@storable("optfs")
class OptFS(SameWidth):
    """Weight activations by the bin of their size; `theta_` (bins,) holds the weights.

    >>> train = np.array([[0.0, 1.0, 4.0]] * 10)
    >>> OptFS(Head(np.ones((1, 3))), bins=2).fit(train).theta_.round(3)
    array([1.414, 0.   ])
    """

    tags = Tags(
        needs_head=True,
        fit_cost="O(N m C)",
        score_cost="O(m)",
        memory="O(bins)",
        reference="Zhao et al. 2024, ICLR",
    )
    params = {"head": HEAD, "bins": count()}
    low_: float
    high_: float
    theta_: NDArray[np.float64]

    def __init__(self, head: Head | None = None, bins: int = 100) -> None:
        self.head = head
        self.bins = bins

    def _learn(self, Z: Rows, labels: Labels | None) -> None:
        self.low_, self.high_ = map(float, percentiles(Z, [TAIL, 100 - TAIL]))
        if not self.high_ > self.low_:
            raise InputError(
                f"the features do not vary over {len(Z)} sample(s); "
                "pass more, or other, training rows."
            )
        gains = self._contributions(Z)
        size = float(np.sqrt(np.mean(gains**2)))
        if size == 0:
            raise InputError(
                "the training features contribute nothing to the logits of their classes; "
                "check that the head belongs to the features."
            )
        self.theta_ = gains / size

    def _contributions(self, Z: Rows) -> NDArray[np.float64]:
        """Return what the activations in each bin add to the largest logit, on average."""
        head = self.head
        total = np.zeros(self.bins + 1)
        if head is None:
            return total[1:]
        for block in row_blocks(len(Z), max(Z.shape[1], len(head.classes)), itemsize=8):
            rows = as_floating(Z[block])
            parts = head.weight[np.argmax(head.logits(rows), axis=1)].astype(np.float64) * rows
            numbers = activation_bins(rows, self.low_, self.high_, self.bins)
            total += np.bincount(numbers.ravel(), parts.ravel(), minlength=self.bins + 1)
        return total[1:] / len(Z)

    def _rectify(self, Z: Array) -> Array:
        xp = namespace(Z)
        numbers = activation_bins(Z, self.low_, self.high_, self.bins)
        weights = like(np.concatenate([[0.0], self.theta_]), Z)
        flat = xp.take(weights, xp.reshape(numbers, (-1,)), axis=0)
        return Z * xp.reshape(flat, (-1, self.n_features_in_))
