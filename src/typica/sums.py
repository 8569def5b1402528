"""Sums over the rows of each class and over products of rows, read once and in order.

A long batch of float32 is multiplied in float32, 4,096 rows at a time, and gathered in float64:
half the time of float64 products. An entry then errs by some 1e-6 of the root of the product of its
two diagonal entries, and the whole, on that scale, by 3e-6 (measured on a network's features). What
is derived from it, such as the inverse of a covariance, errs by less than 1e-3 in the worst
direction, as `keeps_digits` makes sure; the covariance of 50,000 rows is itself known to 6e-3 only.
Where a direction varies so little, beside the features that it is made of, that it would suffer
more, the products are float64.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array

from typica.arrays import AnyArray, fits_float32
from typica.linalg import Floats

# In float32; over 2**15 rows of one class the mean of a constant could be off by 5e-4.
_ROWS_PER_SUM = 256
_ROWS_PER_PRODUCT = 4096
_LONG = 2**13  # rows, and eight per feature: with fewer, float64 costs little
_LEAST_VARIANCE = 5e-3  # of a direction, in units of the products' diagonal
_LEAST_SQUARE = 1e-15  # the largest feature's; below it squares of others underflow in float32


def block_sums(block: AnyArray, codes: NDArray[np.int32], n_classes: int) -> AnyArray:
    """Sum the rows of each class, (n_classes, m), at most _ROWS_PER_SUM in the block's dtype.

    The product with a one-hot matrix reads the block once and in order. A class with more rows gets
    further places behind the classes', whose sums are brought home in float64.
    """
    if n_classes == 1:
        return _sum_of_all(block)[None, :]
    counts = np.bincount(codes, minlength=n_classes)
    owners = codes[:0]
    if counts.max() > _ROWS_PER_SUM:
        order = np.argsort(codes, kind="stable")
        first = np.repeat(np.cumsum(counts) - counts, counts)
        rank = np.arange(codes.size) - first  # of a row within its class
        opens = (rank > 0) & (rank % _ROWS_PER_SUM == 0)
        owners, places = codes[order[opens]], np.empty_like(codes)
        further = n_classes - 1 + np.cumsum(opens)
        places[order] = np.where(rank < _ROWS_PER_SUM, codes[order], further)
        codes = places
    ones, ends = np.ones(codes.size, block.dtype), np.arange(codes.size + 1, dtype=np.int32)
    one_hot = csc_array((ones, codes, ends), shape=(n_classes + owners.size, codes.size))
    sums: AnyArray = one_hot @ block
    if owners.size:
        sums, parts = sums[:n_classes].astype(np.float64), sums[n_classes:]
        for owner, part in zip(owners, parts, strict=True):
            sums[owner] += part
    return sums


def _sum_of_all(block: AnyArray) -> NDArray[np.float64]:
    """Sum all rows, (m,), at most _ROWS_PER_SUM in the block's dtype."""
    whole = len(block) // _ROWS_PER_SUM * _ROWS_PER_SUM
    with np.errstate(over="ignore", invalid="ignore"):  # whoever asks looks at what comes of it
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


def may_be_quick(Z: AnyArray, shift: NDArray[np.float64]) -> bool:
    """Tell whether the rows of Z (n, m), measured from `shift`, may be multiplied in float32."""
    if not fits_float32(Z) or len(Z) < rows_to_judge(Z.shape[1]):
        return False
    return bool((shift.astype(np.float32) == shift).all())


def rows_to_judge(n_features: int) -> int:
    """Return how many rows tell whether their products in float32 are good enough."""
    return max(_LONG, 8 * n_features)


def keeps_digits(products: NDArray[np.float64], scatter: NDArray[np.float64], n_rows: int) -> bool:
    """Tell whether products in float32 were good enough for a scatter (m, m).

    Their errors go with the products' diagonal, so that is the scale on which the scatter must be
    away from singular. Features that do not vary have no errors.
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
    """Return the sums (n_classes, m) of the rows of `values` (n, m) by each row's class number.

    >>> class_sums(np.array([[1.0], [2.0], [4.0]]), np.array([0, 2, 0]), 3).ravel()
    array([5., 0., 2.])
    """
    n = len(values)
    members = csr_array((np.ones(n), (classes, np.arange(n))), shape=(n_classes, n))
    sums: Floats = members @ values.astype(np.float64, copy=False)
    return sums
