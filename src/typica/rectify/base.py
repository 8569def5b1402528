"""The contract that every rectifier keeps, written once.

A rectifier is one file beside this one: its formula, a pure kernel, a thin subclass of `Rectifier`
with its `Tags`, whose `score_cost` is the cost of transforming one row. The subclass says how to
change a block of rows (`_rectify`); validation, blocks and storage are here and in
`typica.estimator`.
"""

from __future__ import annotations

from typing import Any, Self

from sklearn.base import ClassNamePrefixFeaturesOutMixin, OneToOneFeatureMixin, TransformerMixin

from typica.arrays import Array, Labels, Rows, check_rows, map_rows
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
        return map_rows(self._rectify, self._ready(X), self._width())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class SameWidth(OneToOneFeatureMixin, Rectifier):
    """A rectifier whose output has the features of its input, under their names."""


class NewWidth(ClassNamePrefixFeaturesOutMixin, Rectifier):
    """A rectifier whose output has `_n_features_out` features, named after the class."""
