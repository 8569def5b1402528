"""Isolation forest: how many random cuts it takes to set a row apart from the training data.

    score(z) = -2^(-d(z) / c),   d = mean depth of z in random trees, c = the expected mean depth

Liu, Ting, Zhou: Isolation Forest, ICDM 2008. Higher = more typical; between -1 and 0. This is
scikit-learn's IsolationForest on the features as they are, with its defaults. Fit: grows the trees
from samples of 256 rows. Score: walks down all trees.
"""

from __future__ import annotations

from sklearn.ensemble import IsolationForest as Forest

from typica.arrays import Array, Labels, Rows, as_floating, by_sklearn, check_rows
from typica.checks import count, sklearn_seed
from typica.detectors.base import Detector
from typica.store import storable
from typica.tags import Tags


@storable("isolation_forest")
class IsolationForest(Detector):
    """Isolation forest, by scikit-learn; its trees cannot be stored without pickle.

    trees: how many; seed: chooses samples and cuts.

    >>> import numpy as np
    >>> train = np.arange(100.0)[:, None]
    >>> scores = IsolationForest().fit(train).score_samples(np.array([[50.0], [200.0]]))
    >>> bool(scores[0] > scores[1])
    True
    """

    tags = Tags(
        differentiable=False,
        saveable=False,
        fit_cost="O(N m)",
        score_cost="O(trees log N)",
        memory="O(trees), of 256 rows each",
        reference="Liu, Ting & Zhou 2008, ICDM",
    )
    params = {"trees": count(), "seed": sklearn_seed()}
    learnt_by = ("trees", "seed")

    def __init__(self, trees: int = 100, seed: int = 0) -> None:
        self.trees = trees
        self.seed = seed

    def _learn(self, Z: Rows, labels: Labels | None) -> None:
        check_rows(Z)
        forest = Forest(n_estimators=int(self.trees), random_state=int(self.seed))
        self._forest = forest.fit(as_floating(Z))

    def _score(self, Z: Array) -> Array:
        return by_sklearn(self._forest, "score_samples", Z)
