"""LOF, the local outlier factor: how thin the data is around a row, relative to its neighbours.

    score(z) = -mean over the k nearest training features b of density(b) / density(z)

Breunig, Kriegel, Ng, Sander: LOF: Identifying Density-Based Local Outliers, SIGMOD 2000. Higher =
more typical; about -1 among the training data. This is scikit-learn's
LocalOutlierFactor(novelty=True) on the features as they are, with its default k = 20. Fit: searches
the neighbours of all training rows. Score: one search.
"""

from __future__ import annotations

import numpy as np
from sklearn.neighbors import LocalOutlierFactor

from typica.arrays import Array, by_sklearn
from typica.checks import count
from typica.detectors._bases.rows import SUBSAMPLE, RowsDetector
from typica.errors import InputError
from typica.store import storable
from typica.tags import Tags


@storable("lof")
class LOF(RowsDetector):
    """Local outlier factor, by scikit-learn.

    The file holds the training rows; `load` fits again.

    Parameters
    ----------
    k
        How many neighbours, not counting the row itself; if there are fewer, scikit-learn takes
        them all and warns.
    subsample
        Fit only on a random sample, a share (float) or a number (int) of rows.
    seed
        Chooses the sample.

    >>> import numpy as np
    >>> train = np.arange(20.0)[:, None]
    >>> LOF(k=2).fit(train).score_samples(np.array([[9.5], [40.0]])).round(1)
    array([ -1. , -14.3])
    """

    tags = Tags(
        differentiable=False,
        keeps_rows=True,
        mergeable=True,
        # scikit-learn's distances come from a product, which depends on the batch.
        tolerance=(1e-4, 1e-6),
        fit_cost="O(N^2 m)",
        score_cost="O(N m)",
        memory="O(N m)",
        reference="Breunig et al. 2000, SIGMOD",
    )
    params = {"k": count(), "subsample": SUBSAMPLE, "seed": count(0)}
    _model: LocalOutlierFactor

    def __init__(self, k: int = 20, subsample: float | int | None = None, seed: int = 0) -> None:
        self.k = k
        self.subsample = subsample
        self.seed = seed

    def _derive(self) -> None:
        super()._derive()
        if len(self.rows_) < 2:
            raise InputError("n_samples=1 has no neighbours; pass at least 2 training rows.")
        largest = float(np.abs(self.rows_).max())
        if not np.isfinite(4 * largest * largest * self.rows_.shape[1]):
            raise InputError(
                "the features are so large that distances between them overflow; rescale them."
            )
        self._model = LocalOutlierFactor(n_neighbors=int(self.k), novelty=True).fit(self.rows_)

    def _score(self, Z: Array) -> Array:
        with np.errstate(divide="ignore"):  # a row at an infinite distance has a score of -inf
            return by_sklearn(self._model, "score_samples", Z, self.rows_.dtype)
