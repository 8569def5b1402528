"""Load a detector, or a Pipeline that ends in one, from a file; other content is refused."""

from __future__ import annotations

from pathlib import Path

from typica import store
from typica.detectors._pipelines import Estimator, final_detector
from typica.errors import InputError
from typica.kinds import wrong_kind


def load_detector(path: str | Path) -> Estimator:
    """Read a detector, or a Pipeline that ends in one; refuse other content by its name."""
    loaded: Estimator = store.load(path)
    try:
        final_detector(loaded)
    except InputError:
        raise wrong_kind(path, "a detector", "pass one that `typica fit` wrote") from None
    return loaded
