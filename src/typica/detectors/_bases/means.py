"""What the methods on class means share."""

from __future__ import annotations

from typica.arrays import Labels
from typica.estimator import LearnsMoments
from typica.linalg import Floats


class LearnsClassMeans(LearnsMoments):
    """One that learns the mean of each class of its training rows."""

    @property
    def classes_(self) -> Labels:
        """The labels of the training data, sorted."""
        return self.moments_.classes

    @property
    def means_(self) -> Floats:
        """The class means (C, m), in the order of `classes_`."""
        return self.moments_.means
