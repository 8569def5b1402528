"""Several p-values made one: against SciPy and plain loops, and the promise under dependence."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

import typica
from typica.combine import COMBINATIONS, combine_p_values, of_logs

TABLES = st.integers(1, 6).flatmap(
    lambda m: st.lists(st.lists(st.floats(1e-9, 1 - 1e-9), min_size=m, max_size=m), min_size=1)
)


def simes(row):
    ordered = sorted(row)
    return min(len(row) * p / (i + 1) for i, p in enumerate(ordered))


REFERENCES = {
    "fisher": lambda row: scipy.stats.combine_pvalues(row, "fisher").pvalue,
    "stouffer": lambda row: scipy.stats.combine_pvalues(row, "stouffer").pvalue,
    "simes": simes,
    "twice_mean": lambda row: min(1.0, 2 * sum(row) / len(row)),
}


@pytest.mark.parametrize("how", COMBINATIONS)
@given(TABLES)
def test_each_equals_its_reference(how, table):
    wanted = [REFERENCES[how](row) for row in table]
    np.testing.assert_allclose(combine_p_values(table, how), wanted, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("how", COMBINATIONS)
def test_the_ends_are_numbers(how):
    P = [[0.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.5, 1.0]]
    got = typica.combine_p_values(P, how)
    assert ((got >= 0) & (got <= 1)).all() and got[0] <= got[1] <= got[2]
    assert got[0] < 1e-200 and got[2] > 0.999


@pytest.mark.parametrize("how", ["fisher", "simes", "twice_mean"])
def test_log_p_values_may_be_on_any_device(how):
    torch = pytest.importorskip("torch")
    elsewhere = torch.zeros((2, 3), device="meta")  # a device that every machine has
    assert of_logs(elsewhere, how).device == elsewhere.device


def correlated(n: int, seed: int) -> np.ndarray:
    """P-values of four tests whose deviates correlate by 0.8."""
    rng = np.random.default_rng(seed)
    shared, own = rng.normal(size=(n, 1)), rng.normal(size=(n, 4))
    return scipy.stats.norm.cdf(np.sqrt(0.8) * shared + np.sqrt(0.2) * own)


@pytest.mark.parametrize("how", ["fisher", "stouffer"])
def test_known_inputs_correct_for_dependence(how):
    P = correlated(20_000, 0)
    plain = np.mean(combine_p_values(P, how) <= 0.01)
    corrected = np.mean(combine_p_values(P, how, known=correlated(20_000, 1)) <= 0.01)
    assert plain > 0.03  # taken for independent, they promise too much
    assert 0.007 < corrected < 0.013


def test_brown_by_hand():
    known, row = np.array([[0.2, 0.3], [0.9, 0.8], [0.05, 0.4]]), np.array([[0.1, 0.02]])
    T = -2 * np.log(known).sum(axis=1)
    c, k = T.var() / (2 * T.mean()), 2 * T.mean() ** 2 / T.var()
    wanted = scipy.stats.chi2.sf(-2 * np.log(row).sum() / c, k)
    np.testing.assert_allclose(combine_p_values(row, "fisher", known), [wanted], rtol=1e-12)


def test_known_inputs_that_do_not_vary_correct_nothing():
    same = np.full((9, 2), 0.5)
    row = [[0.1, 0.2]]
    assert combine_p_values(row, "fisher", same) == combine_p_values(row, "fisher")


@pytest.mark.parametrize("shift", [0.0, 0.25, 0.5])
def test_twice_the_mean_holds_whatever_the_dependence(shift):
    """Of p-values that are shifted or turned against each other, no share below a exceeds a."""
    u = (np.arange(20_000) + 0.5) / 20_000
    for other in ((u + shift) % 1, 1 - u, np.where(u < 0.1, 0.1 - u, u)):
        p = combine_p_values(np.stack([u, other], axis=1), "twice_mean")
        for alpha in (0.01, 0.05, 0.2, 0.5):
            assert np.mean(p <= alpha) <= alpha + 1e-9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[0.1, 1.1]],), r"combine_p_values: a p-value is NaN or outside 0 to 1"),
        (([[0.1, np.nan]],), "NaN or outside"),
        (([0.1, 0.2],), r"of shape \(2,\).*one row per input"),
        (([["a"]],), "pass numbers"),
        (([[0.1]], "harmonic"), "how='harmonic' is unknown; choose one of fisher, stouffer"),
        (([[0.1, 0.2]], "fisher", [[0.1]]), "2 p-values per row, 1 per known input"),
    ],
)
def test_what_is_refused(arguments, message):
    with pytest.raises(typica.InputError, match=message):
        combine_p_values(*arguments)
