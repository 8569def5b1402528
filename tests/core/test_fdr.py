"""Benjamini-Hochberg and Storey, against their definitions in exact fractions and against SciPy."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import false_discovery_control

from typica.errors import InputError
from typica.fdr import benjamini_hochberg, check_share, storey

grid = st.lists(st.integers(1, 20), min_size=1, max_size=15)
shares = st.integers(1, 99).map(lambda percent: Fraction(percent, 100))


def step_up(p, level):
    """The largest k such that the k-th smallest is at most level * k / m.

    Then all that are at most that one.
    """
    m = len(p)
    passing = [x for k, x in enumerate(sorted(p), start=1) if x * m <= level * k]
    return [bool(passing) and x <= passing[-1] for x in p]


def test_both_by_definition_where_p_values_meet_their_limits():
    """On a grid where equality is common, in exact fractions."""
    rng = np.random.default_rng(0)
    for _ in range(3000):
        steps = int(rng.integers(2, 30))
        numerators = np.minimum(
            rng.integers(1, steps + 1, size=rng.integers(1, 15)), rng.integers(1, steps + 1)
        )
        p = [Fraction(int(number), steps) for number in numerators]
        fdr, lam = (
            Fraction(int(rng.integers(1, 100)), 100),
            Fraction(int(rng.integers(1, steps)), steps),
        )
        pi0 = (1 + sum(x >= lam for x in p)) / (len(p) * (1 - lam))
        assert benjamini_hochberg(numerators / steps, float(fdr)).tolist() == step_up(p, fdr)
        assert storey(numerators / steps, float(fdr), lam).tolist() == step_up(p, fdr / pi0)


def test_equality_is_enough_whatever_the_rounding():
    """k p-values of exactly fdr k / m, of which many are a bit more than the limit in floats."""
    for m in range(1, 9):
        for k in range(1, m + 1):
            for percent in range(1, 100):
                limit = Fraction(percent, 100) * k / m
                p = np.array([limit.numerator / limit.denominator] * k + [1.0] * (m - k))
                assert benjamini_hochberg(p, percent / 100)[:k].all()


@given(grid, shares)
def test_more_is_found_at_a_higher_rate(numerators, fdr):
    p = np.array(numerators) / 20
    for procedure in (benjamini_hochberg, storey):
        assert not (procedure(p, fdr / 2) & ~procedure(p, fdr)).any()


def test_benjamini_hochberg_agrees_with_scipy():
    rng = np.random.default_rng(0)
    p = np.concatenate([rng.random(500), rng.random(200) ** 6])
    for fdr in (0.01, 0.05, 0.3):
        np.testing.assert_array_equal(benjamini_hochberg(p, fdr), false_discovery_control(p) <= fdr)


def test_storey_finds_more_where_most_are_out_of_distribution():
    rng = np.random.default_rng(0)
    p = np.concatenate([rng.random(50), rng.random(450) ** 6])
    assert storey(p, 0.05).sum() > 1.1 * benjamini_hochberg(p, 0.05).sum()
    assert not (benjamini_hochberg(p, 0.05) & ~storey(p, 0.05)).any()


def test_edges():
    for procedure in (benjamini_hochberg, storey):
        assert procedure([], 0.1).shape == (0,)
        assert not procedure(np.ones(5), 0.1).any()
        assert procedure(np.full(5, 1e-9), 0.1).all()
        assert procedure(1e-9, 0.1).tolist() == [True]
    p = np.array([0.04, 0.2])
    benjamini_hochberg(p)
    assert p.tolist() == [0.04, 0.2]


@pytest.mark.parametrize("procedure", [benjamini_hochberg, storey])
def test_bad_input(procedure):
    name = procedure.__name__
    with pytest.raises(
        InputError, match=rf"{name}: a p-value is NaN or outside 0 to 1; pass p-values"
    ):
        procedure([0.5, np.nan])
    with pytest.raises(InputError, match=rf"{name}: a p-value is NaN or outside"):
        procedure([0.5, 1.01])
    with pytest.raises(InputError, match=rf"{name}: p-values of shape \(1, 1\) and type float64"):
        procedure([[0.5]])
    with pytest.raises(InputError, match=rf"{name}: p-values of shape \(1,\) and type <U1"):
        procedure(["a"])
    for bad in (0, 1, -0.1, float("nan"), float("inf"), "much", None, True):
        with pytest.raises(
            InputError, match=rf"{name}: fdr=.* is not a share; pass a number above 0 and below 1"
        ):
            procedure([0.5], bad)
    with pytest.raises(InputError, match=r"storey: lam=1\.5 is not a share"):
        storey([0.5], 0.1, 1.5)


@given(st.integers(1, 9_999))
def test_shares_are_what_is_meant(number):
    """A decimal, and one minus a decimal, however they are written."""
    share = Fraction(number, 10_000)
    rest = 1 - number / 10_000
    for given_as in (
        share,
        float(share),
        str(share),
        Decimal(number) / 10_000,
        np.float64(float(share)),
        1 - rest,
    ):
        assert check_share(given_as, "alpha") == share
    assert check_share(rest, "alpha") == 1 - share


def test_tiny_shares_stay():
    for tiny in (1e-9, 1e-14, 1e-16, 1.5e-300):
        assert float(check_share(tiny, "alpha")) == tiny
    assert check_share(0.0, "alpha", zero=True) == 0
    with pytest.raises(
        InputError, match=r"^alpha=-0\.5 is not a share; pass a number at least 0 and below 1"
    ):
        check_share(-0.5, "alpha", zero=True)
