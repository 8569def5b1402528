"""The old place of what is in `typica.decide`, as in version 0.1; to be removed in 0.3."""

import warnings

from typica.decide import ConformalDetector, Judgement, fingerprint

__all__ = ["ConformalDetector", "Judgement", "fingerprint"]

warnings.warn(
    "typica.conformal is now typica.decide; the old name will be removed in 0.3.",
    DeprecationWarning,
    stacklevel=2,
)
