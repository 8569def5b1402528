"""PCAReconstruction: what the leading principal components of the training features cannot rebuild.

    score(z) = -|(z - mu) - V Vᵀ (z - mu)|

with mu the mean of the training features and the columns of V the leading eigenvectors of their
covariance, as many as explain a given share of the variance.

Hoffmann: Kernel PCA for novelty detection, Pattern Recognition 2007 (of which this is the linear
case); Guan, Liu, Zheng, Zhou, Wang: Revisit PCA-based Technique for Out-of-Distribution Detection,
ICCV 2023, study it on penultimate features. Higher = more typical. On rows of unit length it is CoP
of Fang, Tao, Lv, He, Huang, Yang: Kernel PCA for Out-of-Distribution Detection, NeurIPS 2024:
`make_pipeline(Normalizer(), PCAReconstruction())`. Fit: one pass, and an eigendecomposition. Score:
one product with the directions left out.
"""

from __future__ import annotations

import numpy as np

from typica.checks import number
from typica.detectors._bases.scatter import ResidualDetector
from typica.linalg import Residuals, principal_axes
from typica.store import storable
from typica.tags import Tags


@storable("pca_reconstruction")
class PCAReconstruction(ResidualDetector):
    """Error of reconstruction from the leading principal components.

    share: of the variance, above 0 and below 1, that the components must exceed. At least one
    direction is always left out of them, and every direction in which the training features do not
    vary.

    Scores are exact to 1e-6 (float32) and 1e-11 (float64) of the distance from the mean, not of the
    error.

    >>> train = np.array([[1.0, 0.0], [2.0, 0.1], [3.0, -0.1]] * 10)
    >>> PCAReconstruction().fit(train).score_samples(np.array([[2.0, 0.0], [2.0, 3.0]])).round(1)
    array([-0., -3.])
    """

    tags = Tags(
        mergeable=True,
        tolerance=(1e-5, 1e-10),
        fit_cost="O(N m² + m³)",
        score_cost="O(m²)",
        memory="O(m²)",
        reference="Hoffmann 2007, Pattern Recognition; Guan et al. 2023, ICCV",
    )
    params = {
        "share": number(
            lambda value: 0 < value < 1,
            "a number between 0 and 1",
            "{name}={value!r} is not a share of the variance; pass a number between 0 and 1.",
        )
    }

    def __init__(self, share: float = 0.9) -> None:
        self.share = share

    def _derive(self) -> None:
        mean = self.moments_.mean
        variances, vectors = principal_axes(self.moments_.scatter_about(mean), self.moments_.n)
        explained = np.cumsum(variances / (variances.sum() or 1.0))
        count = int(np.searchsorted(explained, self.share, side="right")) + 1
        self._residuals = Residuals.outside(mean, variances, vectors, min(count, len(mean) - 1))
