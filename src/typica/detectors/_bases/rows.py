"""What the methods that keep training rows share: these stream, merge and may be a sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from typica.arrays import Labels, Rows, as_floating, check_rows, row_blocks
from typica.checks import optional, share_or_count
from typica.detectors.base import Detector
from typica.errors import InputError
from typica.threads import blas_threads, in_threads

_BYTES_MADE = 256  # of each number of a block in threads, generously


SUBSAMPLE = optional(
    share_or_count(
        "a share of the rows (a float) or a number of rows (an integer)",
        "{name}={value!r} is neither a share nor a number of rows; pass e.g. 0.01, 1000 or None.",
        one=True,
    )
)


def check_k(k: int, rows: int, subsample: float | int | None = None) -> None:
    """Raise if there are fewer than k rows to choose from."""
    if k > rows:
        # scikit-learn's checks look for the words in brackets.
        found = "1 training row (1 sample)" if rows == 1 else f"{rows} training rows"
        kept, more = (
            ("", "") if subsample is None else (" that were kept", ", or a larger subsample")
        )
        raise InputError(f"k={k} exceeds the {found}{kept}; pass k<={rows}{more}.")


def in_blocks(kernel: Callable[[Rows], Rows], Z: Rows, dtype: Any) -> Rows:
    """Return what a detector's `kernel` makes of training rows Z (n, m): in threads, by blocks.

    It has the shape of Z. Blocks are small, so that all that is made on the way stays in the cache.

    >>> in_blocks(np.sqrt, np.array([[4.0], [9.0]]), np.float32)
    array([[2.],
           [3.]], dtype=float32)
    """
    made = np.empty(Z.shape, dtype)

    def fill(share: list[slice]) -> None:
        for block in share:
            made[block] = kernel(Z[block])

    blocks = list(row_blocks(len(Z), Z.shape[1], _BYTES_MADE))
    threads = max(1, min(len(blocks), blas_threads()))
    shares = [blocks[first::threads] for first in range(threads)]
    for _ in in_threads(fill, shares, threads):
        pass
    return made


class RowsDetector(Detector):
    """A detector that keeps training rows, all or a random sample of them, in `batches_`.

    Subclasses have the parameters `subsample` (None, a share of each batch, or a number of rows),
    `seed` and `k`, and write `_derive`, which turns `rows_` into what scoring needs.
    """

    learnt_by = ("subsample",)

    subsample: float | int | None
    seed: int
    batches_: list[Rows]

    def _learn(self, Z: Rows, labels: Labels | None) -> None:
        known: list[Rows] = getattr(self, "batches_", [])
        if known:
            self._check_sample_can_grow()
        check_rows(Z)
        if self.subsample is not None:
            Z = Z[self._chosen(len(Z), sum(map(len, known)))]
        self.batches_ = [*known, self._kept(Z)]

    def _chosen(self, n: int, before: int) -> NDArray[np.int64]:
        """Return which of n rows are kept; `before` rows are kept already."""
        kept = self.subsample or n
        if isinstance(kept, float | np.floating):
            # The share of a small training set still leaves the k rows without which nothing can be
            # scored.
            kept = max(int(np.ceil(kept * n)), int(getattr(self, "k", 1)) - before)
        size = min(n, int(kept))
        return np.sort(
            np.random.default_rng([int(self.seed), before]).choice(n, size, replace=False)
        )

    def _kept(self, Z: Rows) -> Rows:
        """Return what is kept of the rows Z, as a new array."""
        return np.array(as_floating(Z), order="C")

    def _absorb(self, other: Self) -> None:
        known: list[Rows] = getattr(self, "batches_", [])
        if known:
            self._check_sample_can_grow()
        self.batches_ = [*known, *other.batches_]

    def _check_sample_can_grow(self) -> None:
        if isinstance(self.subsample, int | np.integer):
            raise InputError(
                "a sample of a fixed number of rows cannot take in more; "
                "pass subsample as a share, or None."
            )

    def _derive(self) -> None:
        if len(self.batches_) > 1:
            self.batches_ = [self.rows_]

    @property
    def rows_(self) -> Rows:
        """The rows that are kept, (N, m)."""
        if len(self.batches_) == 1:
            return self.batches_[0]
        return np.concatenate(self.batches_)
