"""What the methods share whose fit reads the rows twice: to find a measure, and to sum by it."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from typica.arrays import Labels, Rows, check_some, to_numpy
from typica.detectors.base import Detector
from typica.errors import InputError, border

Totals = NDArray[np.float64]


class TwoPasses(Detector):
    """A detector that learns in two passes, each of them in any number of batches that add up.

    Subclasses write `_look`, `_absorb` and `_settle` for the first pass, `_totals` and `_end` for
    the second. `fit` does both at once. In parts, every batch goes through `first_pass`, parts are
    merged by `merge_first_pass`, and `end_first_pass` follows; then the totals that `second_pass`
    returns of every batch are summed up for `end_second_pass`.
    """

    # What a method supplies

    def _look(self, Z: Rows, labels: Labels | None) -> None:
        """Take in one batch in the first pass."""

    def _settle(self, n: int) -> None:
        """Turn what the first pass has found in n rows into what the second pass needs."""

    def _totals(self, Z: Rows) -> Totals:
        """Return sums over the rows of one batch, in the second pass."""
        raise InputError("this detector has no second pass.")

    def _end(self, totals: Totals, n: int) -> None:
        """Learn from the sums over all n rows."""

    # Both passes, at once or one by one

    def _learn(self, Z: Rows, labels: Labels | None) -> None:
        self._look(Z, labels)
        self._settle(len(Z))
        self._end(self._totals(Z), len(Z))

    @border
    def first_pass(self, X: Any, y: Any = None) -> Self:
        """Take in one batch in the first pass."""
        self._check_parameters()
        self._check_learnt_by()
        first = not self._has_learnt()
        Z = self._check(X, reset=first)
        check_some(Z)
        with self._blank_on_error(first):
            self._drop_derived()
            self._look(to_numpy(Z), self._check_labels(y))
        self._learnt_with = self._learning_parameters()
        return self

    @border
    def merge_first_pass(self, other: Self) -> Self:
        """Take in what `other` has found in the first pass."""
        self._drop_derived()
        self._absorb(other)
        self.n_features_in_ = other.n_features_in_
        self._learnt_with = self._learning_parameters()
        return self

    @border
    def end_first_pass(self, n: int) -> Self:
        """End the first pass, over n rows."""
        self._settle(n)
        return self

    @border
    def second_pass(self, X: Any) -> Totals:
        """Return the sums over one batch in the second pass, to be added up; nothing changes."""
        return self._totals(to_numpy(self._check(X)))

    @border
    def end_second_pass(self, totals: Totals, n: int) -> Self:
        """Learn from the sums over all n rows, and end the fit."""
        self._end(totals, n)
        self._prepare()
        return self
