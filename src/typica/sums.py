"""Sums over the rows of each class and over products of rows, read once and in order.

A long batch of float32 is multiplied in float32, 4,096 rows at a time, and gathered in float64:
half the time of float64 products. An entry then errs by some 1e-6 of the root of the product of its
two diagonal entries, and the whole, on that scale, by 3e-6 (a network's features, OpenBLAS). What
is derived from it, such as the inverse of a covariance, errs by less than 1e-3 in the worst
direction: `_keep_digits` makes sure. The covariance of 50,000 rows is itself known to 6e-3 only.
Where a direction varies so little, beside the features that it is made of, that it would suffer
more, the products are float64.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array

from typica.arrays import AnyArray, check_finite, fits_float32
from typica.linalg import Floats
from typica.progress import advance
from typica.threads import blas_threads, in_threads

Codes = NDArray[np.int32]  # (n,), the class of each row by its number

# In float32; over 2**15 rows of one class the mean of a constant could be off by 5e-4.
_ROWS_PER_SUM = 256
_ROWS_PER_PRODUCT = 4096
_BLOCK_ROWS = 2**17
_BLOCK_BYTES = 2**28  # of rows that are read where they lie
_COPIED_BYTES = 2**26
_LEAST_BYTES = 2**22  # of rows that are worth a thread
_MOST_THREADS = 4  # more do not read memory faster
_CENTRED_BYTES = 2**25
_LONG = 2**13  # rows, and eight per feature: with fewer, float64 costs little
_LEAST_VARIANCE = 5e-3  # of a direction, in units of the products' diagonal
_WRITTEN_ZERO = 0.0  # for np.full; what np.zeros only reserves is slow later
_LEAST_SQUARE = 1e-15  # the largest feature's; below it squares of others underflow in float32


def sums_by_class(Z: AnyArray, codes: Codes, n_classes: int) -> Floats:
    """Return the sums (n_classes, m) of the rows of Z (n, m) of each class.

    Several blocks are summed at once: one thread alone waits for memory.

    >>> sums_by_class(np.array([[1.0], [2.0], [4.0]]), np.array([0, 2, 0], np.int32), 3).ravel()
    array([5., 0., 2.])
    """
    dtype = np.dtype(np.float32 if fits_float32(Z) else np.float64)

    def sums_of(rows: slice) -> AnyArray:
        block = np.ascontiguousarray(Z[rows], dtype=dtype)
        return _checked_sums(block, Z, codes, rows, n_classes)

    in_place = Z.dtype == dtype and Z.flags.c_contiguous
    most = _BLOCK_BYTES if in_place else _COPIED_BYTES
    # However many threads there are, so that sums are the same to the last bit.
    share = -(-len(Z) // _MOST_THREADS) * Z.shape[1] * dtype.itemsize
    size = min(most, max(share, _LEAST_BYTES))
    blocks = _row_blocks(slice(0, len(Z)), Z.shape[1], dtype, size)
    # One thread alone adds the rows of one class as fast as memory delivers them.
    several = len(blocks) > 1 and n_classes > 1
    threads = min(len(blocks), _MOST_THREADS, blas_threads()) if several else 1
    total = np.full((n_classes, Z.shape[1]), _WRITTEN_ZERO)
    for rows, sums in zip(blocks, in_threads(sums_of, blocks, threads), strict=True):
        total += sums
        advance(rows.stop - rows.start)
    return total


def centred_sums(Z: AnyArray, codes: Codes, shift: Floats) -> tuple[Floats, Floats]:
    """Return the sums (C, m) of z - s by class, and that of (z - s)(z - s)ᵀ, (m, m), of all rows.

    s is the row of `shift` (C, m) that belongs to the class of z. The products are made in float32
    where that costs no digits.

    >>> centred_sums(np.array([[1.0], [4.0]]), np.array([0, 0], np.int32), np.array([[2.0]]))
    (array([[1.]]), array([[5.]]))
    """
    gathered = _quick_sums(Z, codes, shift) if _may_be_quick(Z, shift) else None
    if gathered is None:
        gathered = _CentredSums(shift)
        gathered.add(Z, codes, slice(0, len(Z)), np.dtype(np.float64))
    return gathered.sums, gathered.products


def scatter_within(products: Floats, sums: Floats, counts: NDArray[np.int64]) -> Floats:
    """Return the scatter (m, m) about class means of rows with these `centred_sums`."""
    present = counts > 0
    scaled: Floats = sums[present] / np.sqrt(counts[present])[:, None]
    return np.asarray(products - scaled.T @ scaled)


class _CentredSums:
    """Sums of rows by class and of their products, measured from the shift of their class."""

    def __init__(self, shift: Floats) -> None:
        self.shift = shift
        self.sums = np.full(shift.shape, _WRITTEN_ZERO)
        self.products = np.zeros((shift.shape[1], shift.shape[1]))

    def add(self, Z: AnyArray, codes: Codes, part: slice, dtype: np.dtype[Any]) -> None:
        """Add a part of the rows of Z, and multiply them in this dtype."""
        blocks = _row_blocks(part, Z.shape[1], dtype, _CENTRED_BYTES)
        longest = max((rows.stop - rows.start for rows in blocks), default=0)
        memory = np.empty((longest, Z.shape[1]), dtype)  # each block's in turn
        shift = self.shift.astype(dtype)
        for rows in blocks:
            centred = memory[: rows.stop - rows.start]
            if len(shift) == 1:
                np.subtract(Z[rows], shift[0], out=centred)
            else:
                np.take(shift, codes[rows], axis=0, out=centred, mode="clip")
                np.subtract(Z[rows], centred, out=centred)
            self.sums += _checked_sums(centred, Z, codes, rows, len(shift))
            self.products += products(centred)
            advance(len(centred))


def _quick_sums(Z: AnyArray, codes: Codes, shift: Floats) -> _CentredSums | None:
    """Return sums whose products were made in float32; None as soon as that costs digits."""
    gathered = _CentredSums(shift)
    early = _rows_to_judge(Z.shape[1])
    for rows in (slice(0, early), slice(early, len(Z))):
        gathered.add(Z, codes, rows, np.dtype(np.float32))
        counts = np.bincount(codes[: rows.stop], minlength=len(shift))
        scatter = scatter_within(gathered.products, gathered.sums, counts)
        if not _keep_digits(gathered.products, scatter, rows.stop):
            advance(-rows.stop)  # once more from the start
            return None
    return gathered


def _row_blocks(part: slice, width: int, dtype: np.dtype[Any], size: int) -> list[slice]:
    """Return the slices of rows that are summed at a time, of `size` bytes at most."""
    step = min(max(size // dtype.itemsize // width, 1), _BLOCK_ROWS)
    starts = range(part.start, part.stop, step)
    return [slice(start, min(start + step, part.stop)) for start in starts]


def _checked_sums(
    block: AnyArray, Z: AnyArray, codes: Codes, rows: slice, n_classes: int
) -> AnyArray:
    """Return the sums of each class of a block, or say which of its rows in Z is not finite."""
    sums = _block_sums(block, codes[rows], n_classes)
    if not np.isfinite(sums).all():  # a bad row, or only an overflow of float32
        check_finite(Z[rows], rows.start)
        sums = _block_sums(block.astype(np.float64), codes[rows], n_classes)
    return sums


def _block_sums(block: AnyArray, codes: Codes, n_classes: int) -> AnyArray:
    """Sum the rows of each class, (n_classes, m), at most _ROWS_PER_SUM in the block's dtype.

    A class with more rows gets further places behind those of the classes; the sums there are added
    to its own in float64.
    """
    if n_classes == 1:
        return _sum_of_all(block)[None, :]
    counts = np.bincount(codes, minlength=n_classes)
    if counts.max() <= _ROWS_PER_SUM:
        return _sums_by_place(block, codes, n_classes)
    places, owners = _places_of_few_rows(codes, counts)
    sums = _sums_by_place(block, places, n_classes + owners.size)
    whole, parts = sums[:n_classes].astype(np.float64), sums[n_classes:]
    for owner, part in zip(owners, parts, strict=True):
        whole[owner] += part
    return whole


def _sums_by_place(block: AnyArray, places: Codes, n_places: int) -> AnyArray:
    """Sum the rows that have the same place, (n_places, m), in the block's dtype.

    The product with a one-hot matrix reads the block once and in order.
    """
    ones = np.ones(places.size, block.dtype)
    ends = np.arange(places.size + 1, dtype=np.int32)
    one_hot = csc_array((ones, places, ends), shape=(n_places, places.size))
    sums: AnyArray = one_hot @ block
    return sums


def _places_of_few_rows(codes: Codes, counts: NDArray[np.int64]) -> tuple[Codes, Codes]:
    """Return a place for each row, with at most _ROWS_PER_SUM rows each.

    The first rows of a class have its own place, and each further lot one behind all classes. Also
    returns which class these further places belong to.
    """
    order = np.argsort(codes, kind="stable")
    first = np.repeat(np.cumsum(counts) - counts, counts)
    rank = np.arange(codes.size) - first  # of a row within its class
    opens = (rank > 0) & (rank % _ROWS_PER_SUM == 0)  # whether a row begins a further place
    further = counts.size - 1 + np.cumsum(opens)
    places = np.empty_like(codes)
    places[order] = np.where(rank < _ROWS_PER_SUM, codes[order], further)
    return places, codes[order[opens]]


def _sum_of_all(block: AnyArray) -> NDArray[np.float64]:
    """Sum all rows, (m,), at most _ROWS_PER_SUM in the block's dtype."""
    whole = len(block) // _ROWS_PER_SUM * _ROWS_PER_SUM
    with np.errstate(over="ignore", invalid="ignore"):  # the caller checks the result
        parts = block[:whole].reshape(-1, _ROWS_PER_SUM, block.shape[1]).sum(axis=1)
        rest = block[whole:].sum(axis=0)
        return np.asarray(parts.sum(axis=0, dtype=np.float64) + rest)


def products(block: AnyArray) -> NDArray[np.float64]:
    """Return the sum of z zᵀ over the rows z of a block (n, m), (m, m).

    >>> products(np.array([[1.0, 2.0], [0.0, 1.0]], dtype=np.float32))
    array([[1., 2.],
           [2., 5.]])
    """
    if block.dtype == np.float64:
        return np.asarray(block.T @ block)
    total = np.zeros((block.shape[1], block.shape[1]))
    for start in range(0, len(block), _ROWS_PER_PRODUCT):
        rows = block[start : start + _ROWS_PER_PRODUCT]
        total += rows.T @ rows
    return total


def _may_be_quick(Z: AnyArray, shift: NDArray[np.float64]) -> bool:
    """Tell whether the rows of Z (n, m), measured from `shift`, may be multiplied in float32."""
    if not fits_float32(Z) or len(Z) < _rows_to_judge(Z.shape[1]):
        return False
    return bool((shift.astype(np.float32) == shift).all())


def _rows_to_judge(n_features: int) -> int:
    """Return how many rows tell whether their products in float32 are good enough."""
    return max(_LONG, 8 * n_features)


def _keep_digits(products: NDArray[np.float64], scatter: NDArray[np.float64], n_rows: int) -> bool:
    """Tell whether products of rows may be summed in float32: if their scatter keeps its digits.

    Their errors are proportional to the products' diagonal: on this scale the scatter must not be
    nearly singular. Features that do not vary have no errors.
    """
    size = np.diag(products)
    largest = size.max() / n_rows
    if not (np.isfinite(products).all() and largest > _LEAST_SQUARE):
        return False
    varies = size > 0
    roots = np.sqrt(size[varies])
    scaled = scatter[np.ix_(varies, varies)] / np.outer(roots, roots)
    scaled[np.diag_indices_from(scaled)] -= _LEAST_VARIANCE
    try:
        np.linalg.cholesky(scaled)
    except np.linalg.LinAlgError:
        return False
    return True


def class_sums(values: AnyArray, classes: NDArray[np.int64], n_classes: int) -> Floats:
    """Return the sums (n_classes, m) of one block of rows by class, all in float64.

    >>> class_sums(np.array([[1.0], [2.0], [4.0]]), np.array([0, 2, 0]), 3).ravel()
    array([5., 0., 2.])
    """
    n = len(values)
    members = csr_array((np.ones(n), (classes, np.arange(n))), shape=(n_classes, n))
    sums: Floats = members @ values.astype(np.float64, copy=False)
    return sums
