"""Calibration: the scores of held-out in-distribution inputs, and all that is decided by them.

Every name is loaded when it is first asked for, so that a detector which is never calibrated does
not wait for it.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
