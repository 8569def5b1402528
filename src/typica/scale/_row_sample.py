"""A uniform sample of training rows: those with the smallest keys, alike however rows are split."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray
from typica.errors import InputError
from typica.scale._batches import Batch


class RowSample:
    """At most `limit` rows, with their labels where they have any, by rising keys.

    salt: part of every key, for another sample of the same rows. Samples of parts merge into the
    sample of the whole.
    """

    def __init__(self, limit: int, salt: str = "") -> None:
        self.limit = limit
        self.salt = salt
        self.keys: NDArray[np.uint64] = np.empty(0, dtype=np.uint64)
        self.rows: AnyArray | None = None
        self.labels: AnyArray | None = None

    def add(self, batch: Batch) -> Self:
        """Take in the rows of a batch whose keys are small enough."""
        keys = batch.keys(self.salt)
        if len(self.keys) == self.limit:
            chosen = np.flatnonzero(keys < self.keys[-1])
        else:
            chosen = np.arange(len(keys))
        if len(chosen) > self.limit:
            chosen = np.sort(chosen[np.argpartition(keys[chosen], self.limit)[: self.limit]])
        if len(chosen):
            labels = None if batch.labels is None else batch.labels[chosen]
            self._take_in(keys[chosen], batch.features[chosen], labels)
        return self

    def merge(self, other: Self) -> Self:
        """Take in the rows of another sample, which stays as it is."""
        if other.rows is not None:
            self._take_in(other.keys, other.rows, other.labels)
        return self

    def _take_in(self, keys: NDArray[np.uint64], rows: AnyArray, labels: AnyArray | None) -> None:
        if self.rows is not None:
            if self.rows.shape[1] != rows.shape[1]:
                widths = f"{rows.shape[1]} features per row instead of {self.rows.shape[1]}"
                raise InputError(f"{widths}; pass rows of one layer.")
            rows = np.concatenate([self.rows, rows])
            keys = np.concatenate([self.keys, keys])
            if labels is not None and self.labels is not None:
                labels = np.concatenate([self.labels, labels])
        order = np.argsort(keys, kind="stable")[: self.limit]
        self.keys, self.rows = keys[order], rows[order]
        self.labels = None if labels is None else labels[order]

    def state(self) -> dict[str, Any]:
        """Return what is sent to others."""
        arrays = {"keys": self.keys, "rows": self.rows, "labels": self.labels}
        return {"limit": self.limit, "salt": self.salt, **arrays}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Rebuild the sample from what was sent."""
        made = cls(state["limit"], state["salt"])
        made.keys, made.rows, made.labels = state["keys"], state["rows"], state["labels"]
        return made
