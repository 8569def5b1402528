"""The threshold: the right order statistic, in exact arithmetic, and what is said when it can do nothing."""

from __future__ import annotations

import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from typica.errors import CalibrationWarning, InputError
from typica.threshold import QUANTILES, rank, threshold


@pytest.mark.parametrize(
    ("n", "tpr", "k"),
    [(9, 0.9, 1), (19, 0.9, 2), (99, 0.9, 10), (19, 0.95, 1), (18, 0.95, 0), (999, 0.999, 1)],
)
def test_rank_is_exact_where_floats_are_not(n, tpr, k):
    assert rank(n, tpr) == k


@given(st.integers(1, 10**6), st.integers(1, 1000))
def test_rank_equals_the_fraction(n, thousandths):
    assert rank(n, thousandths / 1000) == (n + 1) * (1000 - thousandths) // 1000


@given(st.lists(st.floats(allow_nan=False), min_size=19, max_size=200), st.integers(500, 1000))
def test_the_threshold_keeps_what_it_promises(scores, thousandths):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        made = threshold(np.array(scores), thousandths / 1000)
    rejected = sum(score < made.threshold for score in scores)
    assert Fraction(rejected, len(scores)) <= Fraction(1000 - thousandths, 1000) * Fraction(
        len(scores) + 1, len(scores)
    )
    if made.k:
        assert made.threshold == sorted(scores)[made.k - 1]
        assert rejected < made.k
    else:
        assert made.threshold == -np.inf


def test_too_few_inputs_are_said_with_how_many_are_needed():
    with pytest.warns(
        CalibrationWarning,
        match=r"threshold: 18 inputs are too few to reject anything .* at least 19 held-out",
    ):
        assert threshold(np.arange(18.0)).threshold == -np.inf
    assert threshold(np.arange(19.0)).threshold == 0
    assert threshold(np.arange(5.0), tpr=1).threshold == -np.inf  # asked for, so nothing to warn of


@pytest.mark.parametrize("tpr", [0, -1, 1.01, float("nan"), "much", None])
def test_tpr_must_be_a_share(tpr):
    with pytest.raises(InputError, match="is not a share"):
        threshold(np.arange(50.0), tpr)


def test_nan_and_nothing_are_refused():
    with pytest.raises(InputError, match="a score is NaN"):
        threshold(np.array([1.0, np.nan] * 20))
    with pytest.raises(InputError, match="no scores"):
        threshold(np.array([]))


def test_percentiles_are_exact_for_few_and_close_for_many():
    rng = np.random.default_rng(0)
    for n in (100, QUANTILES, 50_000):
        scores = rng.normal(size=n)
        asked = rng.normal(size=200)
        wanted = [100 * sum(scores <= x) / n for x in asked]
        np.testing.assert_allclose(
            threshold(scores).percentile(asked),
            wanted,
            atol=1e-9 if n <= QUANTILES else 100 / QUANTILES,
        )
    assert len(threshold(rng.normal(size=50_000)).quantiles) == QUANTILES
