"""Products of long float32 batches: quick where that costs no digits, float64 where it would."""

import numpy as np
import pytest
from helpers.rounding import products_row_by_row, sum_error

from typica import Mahalanobis, sums
from typica.errors import InputError
from typica.moments import Moments
from typica.progress import listening
from typica.sums import products

N, M, C = 9000, 24, 6


def rows(scale=1.0, offset=0.0):
    rng = np.random.default_rng(0)
    mixing = rng.standard_normal((M, M)) / 5 + np.eye(M)
    labels = rng.integers(C, size=N)
    Z = rng.standard_normal((N, M)) @ mixing + 10 * rng.standard_normal((C, M))[labels]
    return (scale * Z + offset).astype(np.float32), labels


def scatter_in_float64(Z, labels):
    Z = Z.astype(np.float64)
    total = np.zeros((Z.shape[1], Z.shape[1]))
    for label in np.unique(labels):
        D = Z[labels == label] - Z[labels == label].mean(axis=0)
        total += D.T @ D
    return total


@pytest.fixture(params=[products, products_row_by_row], ids=["blas", "row by row"])
def multiplied(request, monkeypatch):
    """List the dtypes in which blocks are multiplied, by this BLAS and by the least precise one."""
    dtypes = []

    def spy(block):
        dtypes.append(block.dtype.name)
        return request.param(block)

    monkeypatch.setattr(sums, "products", spy)
    return dtypes


def error(Z, labels, scatter):
    """Return the largest error of a scatter's entries, in units of the features' own spread."""
    exact = scatter_in_float64(Z, labels)
    roots = np.sqrt(np.where(np.diag(exact) > 0, np.diag(exact), 1.0))
    return np.abs((scatter - exact) / np.outer(roots, roots)).max()


def most_error(Z, labels, dtype):
    """Return what rounding may make of `error` where products are added in this dtype.

    They are measured from the first row of their class. The magnitudes of those in an entry add up
    to at most the root of the two diagonal ones (Cauchy and Schwarz).
    """
    Z = Z.astype(np.float64)
    first = {label: Z[np.argmax(labels == label)] for label in np.unique(labels)}
    measured = ((Z - np.stack([first[label] for label in labels])) ** 2).sum(axis=0)
    varies = measured > 0
    spread = np.diag(scatter_in_float64(Z, labels))[varies]
    together = sums._ROWS_PER_PRODUCT if dtype is np.float32 else len(Z)
    return sum_error(together, dtype) * (measured[varies] / spread).max()


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_ordinary_features_are_multiplied_quickly(multiplied, dtype, offset):
    Z, labels = rows(offset=offset)
    Z = Z.astype(dtype)
    scatter = Moments(True).add(Z, labels).scatter
    assert set(multiplied) == {"float32"}
    assert np.array_equal(scatter, scatter.T)
    assert error(Z, labels, scatter) < most_error(Z, labels, np.float32)


def test_features_of_very_unlike_scales_are_multiplied_quickly(multiplied):
    Z, labels = rows()
    Z *= np.logspace(-5, 5, M, dtype=np.float32)
    scatter = Moments(True).add(Z, labels).scatter
    assert error(Z, labels, scatter) < most_error(Z, labels, np.float32)
    assert set(multiplied) == {"float32"}


def test_a_constant_feature_stays_constant(multiplied):
    Z, labels = rows()
    Z[:, 3] = 0.1
    scatter = Moments(True).add(Z, labels).scatter
    assert set(multiplied) == {"float32"}
    assert not scatter[3].any() and not scatter[:, 3].any()


def spoilt(case):
    Z, labels = rows()
    if case == "collinear":
        Z[:, 5] = 2 * Z[:, 7]
    elif case == "nearly collinear":
        Z[:, 5] = Z[:, 7] + np.float32(1e-3) * Z[:, 5]
    elif case == "first row far out":
        Z[0] = 1e4
    elif case == "tiny":
        Z *= np.float32(1e-20)
    elif case == "huge":
        Z *= np.float32(1e20)
    return Z, labels


@pytest.mark.parametrize(
    "case", ["collinear", "nearly collinear", "first row far out", "tiny", "huge"]
)
def test_what_would_lose_digits_is_multiplied_in_float64(multiplied, case):
    Z, labels = spoilt(case)
    scatter = Moments(True).add(Z, labels).scatter
    assert multiplied[-1] == "float64"
    assert error(Z, labels, scatter) < most_error(Z, labels, np.float64)


def test_short_batches_and_float64_are_multiplied_in_float64(multiplied):
    Z, labels = rows()
    Moments(True).add(Z[:8000], labels[:8000])
    Moments(True).add(Z.astype(np.float64), labels)
    assert set(multiplied) == {"float64"}


def test_a_first_row_that_float32_does_not_hold(multiplied):
    Z, labels = rows()
    first = Moments(True).add(Z[:50].astype(np.float64) + 1e-9, labels[:50])
    first.add(Z[50:], labels[50:])
    assert set(multiplied) == {"float64"}


def test_a_bad_row_of_a_long_batch_is_named_and_nothing_changes():
    Z, labels = rows()
    known = Moments(True).add(Z, labels)
    before = known.state()
    Z[8765, 4] = np.nan
    with pytest.raises(InputError, match=r"row 8765 of the features holds NaN .* in column 4"):
        known.add(Z, labels)
    np.testing.assert_equal(known.state(), before)


@pytest.mark.parametrize("case", ["", "collinear"])
def test_progress_ends_at_the_number_of_rows(case):
    told = []
    with listening(told.append):
        Moments(True).add(*spoilt(case))
    assert sum(told) == N


def test_quick_products_change_a_score_by_less_than_its_tolerance(multiplied):
    Z, labels = rows()
    quick = Mahalanobis().fit(Z, labels).score_samples(Z[:500])
    exact = (
        Mahalanobis().fit(Z.astype(np.float64), labels).score_samples(Z[:500].astype(np.float64))
    )
    np.testing.assert_allclose(quick, exact, rtol=2e-5)
