"""Try what was read: a file with a right checksum can still hold parts that do not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica.errors import FormatError, InputError, a_kind

PLAIN = (type(None), bool, int, float, str, list, dict, tuple, np.ndarray)
_PASSES = (None, "passthrough")  # steps of a pipeline that do nothing
_WIDEST = 2**24  # features in a row
_TRIED = 3  # rows: arrays that fit one row by chance do not fit these


def check_parts(loaded: Any) -> None:
    """Refuse a file of plain data, and let an estimator that was read try its parts."""
    if isinstance(loaded, PLAIN):
        raise FormatError(f"{a_kind(loaded)} and not a detector")
    if hasattr(loaded, "try_parts"):
        loaded.try_parts()
    elif hasattr(loaded, "steps"):
        _check_stored_pipeline(loaded)


def _check_stored_pipeline(pipeline: Any) -> None:
    """Refuse a stored file whose Pipeline, as far as it is fitted, cannot take a few rows."""
    *transformers, last = (step for _, step in pipeline.steps if step not in _PASSES)
    if not hasattr(last, "steps") and not hasattr(last, "try_parts"):
        raise FormatError(f"a pipeline that ends in {a_kind(last)}")
    widths = [_width(step) for step in (*transformers, last)]
    width = next((known for known in widths if known is not None), None)
    if width is None:
        return
    from sklearn.exceptions import NotFittedError  # noqa: PLC0415 (loaded with the pipeline)

    rows = trial_rows(width)
    try:
        for step in transformers:
            rows = step.transform(rows)
    except (InputError, NotFittedError):
        return
    if hasattr(last, "steps"):
        _check_stored_pipeline(last)
        return
    last.try_parts()


def _width(step: Any) -> int | None:
    """Return how many features a stored step takes, if it says so."""
    width: int | None = getattr(step, "n_features", None)
    return getattr(step, "n_features_in_", None) if width is None else width


def trial_rows(width: int) -> NDArray[np.float32]:
    """Return the rows on which a stored estimator is tried when its file is read."""
    if not isinstance(width, int) or not 0 < width <= _WIDEST:
        raise FormatError(f"{width!r} features per row")
    return np.linspace(-1, 1, _TRIED * width, dtype=np.float32).reshape(_TRIED, width)
