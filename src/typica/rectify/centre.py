"""Centre: the mean of the training features is subtracted.

    rectified(z) = z - mean

The mean is kept in float64 and streams and merges. Before CTM it makes the score the cosine as seen
from the middle of the training data. Fit: one pass. Transform: one subtraction.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from typica.arrays import Array, like
from typica.estimator import LearnsMoments
from typica.rectify.base import SameWidth
from typica.store import storable
from typica.tags import Tags


@storable("centre")
class Centre(LearnsMoments, SameWidth):
    """Subtract the mean `mean_` of the training features.

    >>> Centre().fit(np.array([[1.0, 2.0], [3.0, 6.0]])).transform(np.array([[2.0, 5.0]]))
    array([[0., 1.]])
    """

    tags = Tags(
        mergeable=True,
        fit_cost="O(N m)",
        score_cost="O(m)",
        memory="O(m)",
        reference="textbook",
    )
    _mean: NDArray[np.float64]

    @property
    def mean_(self) -> NDArray[np.float64]:
        """The mean (m,) of the training features."""
        return np.asarray(self.moments_.means[0])

    def _derive(self) -> None:
        self._mean = self.mean_

    def _rectify(self, Z: Array) -> Array:
        return Z - like(self._mean, Z)
