"""Labels and numbers at the edge: each has a defined answer, and none is quietly 'typical'."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from typica import CTM, SHE, GradNorm, Head, InputError, Mahalanobis, OpenMax, Residual

ROWS = np.random.default_rng(0).normal(size=(60, 8))
HEAD = Head(np.random.default_rng(1).normal(size=(3, 8)))


@pytest.mark.parametrize("detector", [CTM(), Mahalanobis(), SHE(HEAD), OpenMax(HEAD)])
@pytest.mark.parametrize(
    "labels",
    [
        [None] * 60,
        [1, None] * 30,
        np.array(["a", None] * 30, dtype=object),
        pd.Series(["a", np.nan] * 30, dtype=object),
        [pd.NA, "a"] * 30,
    ],
    ids=["none", "some", "objects", "nan", "NA"],
)
def test_a_label_that_is_missing_is_named(detector, labels) -> None:
    match = r"label (None|nan|<NA>) of row [01] is neither an integer nor a str"
    with pytest.raises(InputError, match=match):
        detector.fit(ROWS, labels)


@pytest.mark.parametrize("detector", [CTM(), Mahalanobis(), SHE(HEAD), OpenMax(HEAD)])
def test_labels_of_two_kinds_are_refused(detector) -> None:
    with pytest.raises(InputError, match="labels mix strings and integers"):
        detector.fit(ROWS, ["a", 1] * 30)


def test_masked_features_are_refused_and_plain_ones_taken() -> None:
    masked = np.ma.masked_array(ROWS, mask=np.zeros_like(ROWS, dtype=bool))
    labels = np.arange(60) % 3
    expected = CTM().fit(ROWS, labels).score_samples(ROWS)
    np.testing.assert_array_equal(CTM().fit(masked, labels).score_samples(masked), expected)
    masked[0, 0] = np.ma.masked
    with pytest.raises(InputError, match=r"CTM\.fit: some features are masked; fill them"):
        CTM().fit(masked, labels)


def test_a_score_beyond_float32_is_refused_and_not_typical() -> None:
    detector = GradNorm(Head(np.diag([1, 0.5, 0.1]) @ np.eye(3, 100)))
    rows = np.full((2, 100), 1e37, dtype=np.float32)
    rows[0] = 1
    with pytest.raises(InputError, match="the score of row 1 exceeds float32; pass float64"):
        detector.score_samples(rows)
    assert np.isfinite(detector.score_samples(rows.astype(np.float64))).all()


@pytest.mark.parametrize("detector", [Mahalanobis(), Residual(dim=2)])
def test_a_fit_whose_own_rows_have_no_finite_score_is_refused(detector) -> None:
    tiny = (ROWS * 1e-42).astype(np.float32)
    with pytest.raises(InputError, match="no training row has a finite score; rescale"):
        detector.fit(tiny, np.arange(60) % 3)
    assert not hasattr(detector, "n_features_in_") or not hasattr(detector, "training_offset_")
