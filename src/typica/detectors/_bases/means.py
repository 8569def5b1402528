"""What the methods on class means share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from typica.arrays import Labels, row_blocks
from typica.errors import InputError
from typica.estimator import LearnsMoments
from typica.linalg import Floats, unit_rows
from typica.moments import Moments

# A mean shorter than this times the features' root mean square length is noise, not a direction.
ZERO_MEAN = 1e-6


def mean_directions(moments: Moments) -> NDArray[np.float64]:
    """Return what a detector compares with: class means of length 1 (C, m); raise if one is 0."""
    means: NDArray[np.float64] = moments.means
    least = ZERO_MEAN * moments.root_mean_square
    n, m = means.shape
    for block in row_blocks(n, m, itemsize=8):
        short = np.sqrt(np.vecdot(means[block], means[block])) <= least[block]
        if short.any():
            name = moments.classes[block][np.argmax(short)]
            raise InputError(
                f"the mean of class {name!s} is zero relative to its features and has no "
                "direction; check the layer (features after a ReLU have no such means)."
            )
        means[block] = unit_rows(means[block])
    return means


class LearnsClassMeans(LearnsMoments):
    """A detector that learns the mean of each class of its training rows."""

    @property
    def classes_(self) -> Labels:
        """The labels of the training data, sorted."""
        return self.moments_.classes

    @property
    def means_(self) -> Floats:
        """The class means (C, m), in the order of `classes_`."""
        return self.moments_.means
