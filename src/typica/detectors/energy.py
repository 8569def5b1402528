"""Energy, the logarithm of the sum of the exponentials of the logits.

    score(z) = T log sum_k exp(l_k / T),   l = logits of z

Liu, Wang, Owens, Li: Energy-based Out-of-distribution Detection, NeurIPS 2020. Higher = more
typical: the score is the negative of the paper's free energy, as the paper itself uses it. T = 1 is
the paper's choice; T -> 0 is MaxLogit. Score: one product with the head.
"""

from __future__ import annotations

from typica.arrays import Array, namespace
from typica.detectors._bases.logit import LogitDetector, Tempered
from typica.store import storable
from typica.tags import Tags


def negative_energy(L: Array, temperature: float = 1.0) -> Array:
    """Return T log sum_k exp(L_k / T), T = temperature, for each row of the logits L (n, C).

    >>> import numpy as np
    >>> negative_energy(np.array([[0.0, 0.0], [1e4, 1e4]])).round(3)
    array([6.9300000e-01, 1.0000693e+04])
    """
    xp = namespace(L)
    largest = xp.max(L, axis=1)
    weights = xp.exp((L - largest[:, None]) / temperature)
    return largest + temperature * xp.log(xp.sum(weights, axis=1))


@storable("energy")
class Energy(Tempered, LogitDetector):
    """Negative free energy, at a temperature; ready without `fit`.

    >>> import numpy as np
    >>> Energy().score_samples(np.log(np.array([[1.0, 3.0], [2.0, 0.5]]))).round(4)
    array([1.3863, 0.9163])
    """

    tags = Tags(
        reads="logits",
        needs_fit=False,
        fit_cost="none",
        score_cost="O(m C)",
        memory="O(m C), the head",
        reference="Liu et al. 2020, NeurIPS",
    )

    def _score_logits(self, L: Array) -> Array:
        return negative_energy(L, float(self.temperature))
