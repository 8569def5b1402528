"""The place of version 0.1 for what is in `typica.decide` now; it goes with version 0.3."""

import warnings

from typica.decide import Monitor, Rate

__all__ = ["Monitor", "Rate"]

warnings.warn(
    "typica.monitor is now typica.decide; the old name goes with version 0.3.",
    DeprecationWarning,
    stacklevel=2,
)
