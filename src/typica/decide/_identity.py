"""What makes the scores of a detector or a Pipeline: its fingerprint."""

from __future__ import annotations

import hashlib

from typica import store
from typica.detectors import Estimator, final_detector, is_pipeline
from typica.errors import InputError, border


@border
def fingerprint(estimator: Estimator, own: str | None = None) -> str:
    """Return the SHA-256 of all that makes the scores; "" for what cannot be stored.

    own: that of the detector itself, if it is known already.

    >>> import numpy as np, typica
    >>> one, other = (typica.CTM().fit(np.eye(20) + shift, range(20)) for shift in (0.0, 0.1))
    >>> fingerprint(one) == fingerprint(one), fingerprint(one) == fingerprint(other)
    (True, False)
    """
    if not is_pipeline(estimator):
        return final_detector(estimator).fingerprint() if own is None else own
    own = fingerprint(estimator.steps[-1][1], own)
    if not own:
        return ""
    try:
        steps = [[name, store.fingerprint(step)] for name, step in estimator.steps[:-1]]
    except InputError:
        return ""
    return hashlib.sha256(f"{steps} {own}".encode()).hexdigest()
