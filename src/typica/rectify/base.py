"""The contract that every rectifier keeps, written once.

A rectifier is one file beside this one: its formula, a pure kernel, a thin subclass of `Rectifier`
with its `Tags`, whose `score_cost` is the cost of transforming one row. The subclass says how to
change a block of rows (`_rectify`); validation, blocks and storage are here and in
`typica.estimator`.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn import get_config
from sklearn.base import ClassNamePrefixFeaturesOutMixin, OneToOneFeatureMixin, TransformerMixin

from typica.arrays import Array, Labels, Rows, check_rows, is_traced, map_rows, namespace, to_numpy
from typica.errors import InputError, border
from typica.estimator import Estimator


class Rectifier(TransformerMixin, Estimator):
    """A scikit-learn transformer of features of any backend; keeps gradients, changes no input.

    Subclasses set `tags` and write `_rectify` and, unless they learn nothing, `_learn`.
    """

    def _learn(self, Z: Rows, labels: Labels | None) -> None:
        check_rows(Z)

    def _rectify(self, Z: Array) -> Array:
        """Change one block of checked float32 or float64 rows, in their backend, into new ones."""
        raise InputError("this rectifier has no transform.")

    def _width(self) -> int:
        """Return the most numbers that `_rectify` makes per row, if more than it is given."""
        return 1

    @border
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from the training features X (n, m) and, where they are used, the labels y."""
        self._fit(X, y)
        return self

    @border
    def transform(self, X: Any) -> Array:
        """Return the changed features, in the backend of X; half precision comes out as float32."""
        changed = map_rows(self._rectify, self._ready(X), self._width())
        if is_traced(changed):
            return changed
        _check_bounded(changed)
        # scikit-learn makes the table that was asked for, but not of a tensor with gradients.
        return to_numpy(changed) if _returns_table(self) else changed

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class SameWidth(OneToOneFeatureMixin, Rectifier):
    """A rectifier whose output has the features of its input, under their names."""


class NewWidth(ClassNamePrefixFeaturesOutMixin, Rectifier):
    """A rectifier whose output has `_n_features_out` features, named after the class."""


def _returns_table(rectifier: Rectifier) -> bool:
    """Tell whether scikit-learn is asked for pandas or polars, by `set_output` or `set_config`."""
    own = getattr(rectifier, "_sklearn_output_config", {})
    return bool(own.get("transform", get_config()["transform_output"]) != "default")


def _check_bounded(Z: Array) -> None:
    """Refuse changed rows that overflow."""
    xp = namespace(Z)
    with np.errstate(over="ignore", invalid="ignore"):
        total = xp.sum(Z)  # which is finite for all but very large rows
    if bool(xp.isfinite(total)):
        return
    bad = xp.any(~xp.isfinite(Z), axis=1)
    if bool(xp.any(bad)):
        row = int(xp.argmax(xp.astype(bad, xp.int8)))
        raise InputError(
            f"row {row} overflows {Z.dtype} once it is changed; pass float64, or rescale the "
            "features."
        )
