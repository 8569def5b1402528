"""RMDSpp, relative Mahalanobis++: the relative Mahalanobis distance between features of one length.

    score(z) = RelativeMahalanobis' score of z / |z|^beta,   beta = 1

Müller, Hein: Mahalanobis++: Improving OOD Detection via Feature Normalization, ICML 2025; other
exponents: Janiak, Binkowski, Kajdanowicz: A Geometry-Based View of Mahalanobis OOD Detection, 2025.
It is `make_pipeline(L2Normalise(exponent=beta), RelativeMahalanobis())` in one detector that
streams and merges. Higher = more typical. Fit and score: as `RelativeMahalanobis`, and one pass for
the lengths.
"""

from __future__ import annotations

from dataclasses import replace

from typica.detectors.mds_pp import Radial
from typica.detectors.relative_mahalanobis import RelativeMahalanobis
from typica.store import storable


@storable("rmds_pp")
class RMDSpp(RelativeMahalanobis, Radial):
    """Relative Mahalanobis distance after normalisation.

    Needs the labels of at least two classes; exponent and shrinkage as in `MDSpp`.

    >>> import numpy as np
    >>> left, right = [[1.0, 0.1], [3.0, -0.3], [2.0, 0.1]], [[0.1, 1.0], [-0.3, 3.0], [0.1, 2.0]]
    >>> train = np.array((left + right) * 5)
    >>> detector = RMDSpp().fit(train, (["right"] * 3 + ["up"] * 3) * 5)
    >>> one, two, between = detector.score_samples(np.array([[1.0, 0.0], [9.0, 0.0], [1.0, 1.0]]))
    >>> bool(np.isclose(one, two)), bool(between < one)
    (True, True)
    """

    tags = replace(RelativeMahalanobis.tags, reference="Müller & Hein 2025, ICML")
