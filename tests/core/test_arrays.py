"""Conversions, blocks and checks, at every entrance."""

from __future__ import annotations

import array_api_strict
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from hypothesis import given
from hypothesis import strategies as st

from typica import arrays
from typica.errors import InputError


@given(st.integers(0, 500), st.integers(1, 10**8), st.sampled_from([4, 8]))
def test_row_blocks_cover_every_row_once(n, width, itemsize):
    blocks = list(arrays.row_blocks(n, width, itemsize))
    assert [i for block in blocks for i in range(block.start, block.stop)] == list(range(n))
    assert all(
        (b.stop - b.start) * width * itemsize <= arrays.BLOCK_BYTES or b.stop - b.start == 1
        for b in blocks
    )


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (None, "expected an array of features, got None"),
        ("file.npy", "expected an array of features, got 'file.npy'"),
        ([[1.0], [1.0, 2.0]], "the rows do not form a matrix"),
        ([1.0, 2.0], "Reshape your data"),
        (np.ones((2, 2, 2)), "have 3 dimensions instead of 2"),
        (np.ones((0, 3)), r"0 sample\(s\) \(shape=\(0, 3\)\)"),
        (np.ones((3, 0)), r"0 feature\(s\) \(shape=\(3, 0\)\)"),
        (np.ones((2, 2), complex), "Complex data not supported"),
        (torch.ones((2, 2), dtype=torch.complex64), "Complex data not supported"),
        (np.array([["a", "b"]]), "features must be numbers"),
        (
            np.full((2, 2), np.datetime64("2020-01-01")),
            r"features of type datetime64\[D\] are times",
        ),
        (np.full((2, 2), np.timedelta64(1, "s")), r"features of type timedelta64\[s\] are times"),
        (
            pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": [1.0, 2.0]}),
            r"some features are missing \(NA of pandas\); fill them",
        ),
        (scipy.sparse.csr_array(np.eye(2)), "sparse features are not supported"),
        (np.ones((2, 2)), "X has 2 features, but Here is expecting 3 features"),
    ],
)
def test_wrong_features_are_refused(X, message):
    with pytest.raises(InputError, match=message):
        arrays.as_features(X, 3 if "3 features" in message else None, owner="Here")


def test_features_come_in_many_forms():
    for X in (
        [[1, 2]],
        np.array([[1, 2]], object),
        pd.DataFrame([[1, 2]]),
        ((1.0, 2.0),),
        np.array([["1", "2"]]),
    ):
        np.testing.assert_array_equal(arrays.as_features(X), [[1, 2]])


@pytest.mark.parametrize(
    ("dtype", "wanted"),
    [
        ("float16", "float32"),
        ("float32", "float32"),
        ("float64", "float64"),
        ("int8", "float64"),
        ("bool", "float64"),
        ("longdouble", "float64"),
    ],
)
def test_working_dtypes(dtype, wanted):
    assert arrays.as_floating(np.ones((1, 1), dtype)).dtype == wanted


def test_working_dtypes_of_tensors():
    for dtype in (torch.bfloat16, torch.float16):
        assert arrays.as_floating(torch.ones((1, 1), dtype=dtype)).dtype == torch.float32
    assert arrays.as_floating(torch.ones((1, 1), dtype=torch.int32)).dtype == torch.float64
    assert arrays.as_floating(torch.ones((1, 1), dtype=torch.float64)).dtype == torch.float64


def test_everything_becomes_numpy():
    for x in (
        torch.ones(2, requires_grad=True),
        torch.ones(2, dtype=torch.bfloat16),
        array_api_strict.ones(2),
        [1.0, 1.0],
        pd.Series([1.0, 1.0]),
    ):
        got = arrays.to_numpy(x)
        assert isinstance(got, np.ndarray)
        np.testing.assert_array_equal(got, [1, 1])


@pytest.mark.parametrize("make", [np.asarray, torch.asarray, array_api_strict.asarray])
def test_finite_rows_pass_even_if_their_sum_overflows(make):
    arrays.check_finite(make(np.full((3, 3), 3e38, np.float32)))
    bad = np.full((3, 3), 3e38, np.float32)
    bad[2, 1] = np.nan
    with pytest.raises(InputError, match=r"^row 12 of the features holds NaN"):
        arrays.check_finite(make(bad), first_row=10)
