"""scikit-learn's transformers and pipelines in files: a fixed list, and parameters without code."""

from __future__ import annotations

import importlib
from typing import Any

from typica.errors import FormatError
from typica.store._fitted_state import State, restore_state

MODULES = {
    "FunctionTransformer": None,  # holds code: refused with a reason
    "MaxAbsScaler": "sklearn.preprocessing",
    "MinMaxScaler": "sklearn.preprocessing",
    "Normalizer": "sklearn.preprocessing",
    "PCA": "sklearn.decomposition",
    "RobustScaler": "sklearn.preprocessing",
    "StandardScaler": "sklearn.preprocessing",
    "TruncatedSVD": "sklearn.decomposition",
}


def transformer(name: str, params: State, state: State) -> Any:
    """Return a transformer of scikit-learn that was stored."""
    module = MODULES.get(name)
    if not module:
        raise FormatError(f"unknown transformer {name}")
    if state and "n_features_in_" not in state:
        raise FormatError(f"a {name} that does not say how many features it takes")
    estimator = getattr(importlib.import_module(module), name)(**params)
    restore_state(estimator, state)
    return estimator
