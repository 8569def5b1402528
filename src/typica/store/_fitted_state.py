"""What is stored of an estimator: its fitted attributes, and nothing else."""

from __future__ import annotations

import re
from typing import Any

from typica.errors import FormatError

State = dict[str, Any]  # what an object is stored as: values by name


def state_to_store(estimator: Any) -> State:
    """Return what is stored of a fitted estimator: the attributes that end in an underscore."""
    return {key: value for key, value in vars(estimator).items() if _is_stored_name(key)}


def restore_state(estimator: Any, state: State) -> None:
    """Set on an estimator what was stored of it: fitted attributes, and nothing else."""
    for key, value in state.items():
        if not _is_stored_name(key):
            raise FormatError(f"{key!r} is not the name of a fitted attribute")
        setattr(estimator, key, value)


def _is_stored_name(name: str) -> bool:
    """Tell whether an attribute is stored (`mean_`, `W_`, `n_features_in_`) or private."""
    return re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*_", name) is not None
