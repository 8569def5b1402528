"""Residual: how much of a feature lies outside the principal subspace of the training features.

    score(z) = -|Rᵀ (z - o)|,   o = -pinv(W) b

with W, b the head's weight and bias, and the columns of R the eigenvectors of sum (z - o)(z - o)ᵀ
over the training rows, less the `dim` leading ones. Not centred at the mean: the subspace passes
through o, the point where the head's logits vanish.

Wang, Li, Feng, Zhang: ViM: Out-Of-Distribution with Virtual-logit Matching, CVPR 2022 (its
ablation). Higher = more typical. Fit: one pass, and an eigendecomposition. Score: one product with
R.
"""

from __future__ import annotations

from typica.detectors._bases.scatter import PrincipalDetector
from typica.store import storable
from typica.tags import Tags


@storable("residual")
class Residual(PrincipalDetector):
    """Distance from the principal subspace of the training features.

    head: the classifier's last layer, which sets the origin; None: the origin is zero, as for a
    head without bias. dim: of the principal subspace; None: 1000 from 2048 features on, 512 from
    768 on, else half of them. Directions in which the training features do not vary are never
    principal, so that whatever leaves the span of the training features counts as residual.

    Scores are exact to 1e-6 (float32) and 1e-11 (float64) of the rows' own length, not of the
    residual's.

    >>> import numpy as np
    >>> train = np.array([[1.0, 0.0], [2.0, 0.1], [2.0, -0.1]] * 10)
    >>> Residual(dim=1).fit(train).score_samples(np.array([[9.0, 0.0], [0.0, 2.0]])).round(1)
    array([-0., -2.])
    """

    tags = Tags(
        mergeable=True,
        tolerance=(1e-5, 1e-10),
        fit_cost="O(N m² + m³)",
        score_cost="O(m (m - dim))",
        memory="O(m²)",
        reference="Wang et al. 2022, CVPR",
    )
