"""Labels and numbers at the edge: each has a defined answer, and none is quietly 'typical'."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

import typica
from typica import (
    CTM,
    GMM,
    LOF,
    SHE,
    CalibrationWarning,
    GradNorm,
    Head,
    InputError,
    Mahalanobis,
    OpenMax,
    PCAReconstruction,
    Residual,
)
from typica.rectify import ReAct

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


@pytest.mark.parametrize("detector", [Mahalanobis(), GMM(), LOF()])
def test_a_calibration_by_rows_that_overflow_does_not_accept_everything(detector) -> None:
    detector.fit(ROWS, np.arange(60) % 3)
    held_out = np.random.default_rng(2).normal(size=(120, 8))
    held_out[:20] *= 1e200
    with pytest.raises(InputError, match=r"calibrate: 20 of 120 calibration scores are -inf, and"):
        detector.calibrate(held_out)
    assert not hasattr(detector, "calibration_")
    held_out[3:20] /= 1e200
    with pytest.warns(CalibrationWarning, match="3 of 120 calibration scores are -inf and rank"):
        detector.calibrate(held_out)
    # The sixth of 120 scores, three of which are the lowest.
    finite = np.sort(detector.score_samples(held_out[3:]))
    assert detector.offset_ == finite[2]
    assert not detector.judge(held_out[:3]).typical.any()
    with pytest.raises(InputError, match=r"judge: 3 of 120 calibration scores are -inf, and"):
        detector.judge(ROWS, alpha=0.02)


def test_few_rows_that_overflow_are_refused_only_where_they_set_the_threshold() -> None:
    detector = Mahalanobis().fit(ROWS, np.arange(60) % 3)
    with pytest.warns(CalibrationWarning, match="too few to reject anything"):
        detector.calibrate(ROWS[:5] + 0.01)
    assert detector.offset_ == -np.inf
    with pytest.warns(CalibrationWarning):
        detector.calibrate(np.full((5, 8), 1e200))  # no threshold of these rows either
    assert detector.offset_ == -np.inf


def test_a_file_whose_scores_are_all_endless_is_refused(tmp_path) -> None:
    path = tmp_path / "d.safetensors"
    detector = CTM().fit(ROWS, np.arange(60) % 3).calibrate(2 * ROWS)
    (sample,) = detector.calibration_.samples.values()
    sample._scores[:] = -np.inf
    detector.save(path)
    with pytest.raises(InputError, match=r"60 of 60 calibration scores are -inf"):
        typica.load(path)


def test_a_threshold_beyond_float32_is_not_reached_by_every_row() -> None:
    detector = Mahalanobis().fit(ROWS, np.arange(60) % 3).calibrate(1e25 * ROWS)
    rows = (1e30 * ROWS[:3]).astype(np.float32)
    for use in (detector.judge, detector.predict):
        with pytest.raises(InputError, match=r"the threshold -.*e\+.* exceeds float32; pass float"):
            use(rows)
    assert (detector.predict(rows.astype(np.float64)) == -1).all()


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
@pytest.mark.parametrize("change", [torch.Tensor.to_sparse, torch.Tensor.to_sparse_csr])
def test_a_sparse_tensor_is_refused(change) -> None:
    detector = CTM().fit(ROWS, np.arange(60) % 3)
    rows = change(torch.asarray(ROWS))
    for use in (detector.judge, detector.score_samples, CTM().fit, ReAct().fit):
        with pytest.raises(InputError, match="sparse and quantised tensors are not supported"):
            use(rows)


def test_a_tensor_without_values_is_refused() -> None:
    detector = CTM().fit(ROWS, np.arange(60) % 3)
    with pytest.raises(InputError, match=r"CTM\.judge: a tensor on the device 'meta' has no value"):
        detector.judge(torch.asarray(ROWS, device="meta"))


@pytest.mark.parametrize("detector", [PCAReconstruction(), Mahalanobis(), GMM()])
def test_columns_of_very_different_size_are_taken(detector) -> None:
    scale = 10.0 ** np.linspace(-150, 150, 16)  # LAPACK does not converge on some covariances
    for seed in range(30):
        rows = np.random.default_rng(seed).normal(size=(200, 16)) * scale
        scores = detector.fit(rows, np.zeros(200, dtype=int)).score_samples(rows)
        assert np.isfinite(scores).all()


def test_shrinkage_of_large_features() -> None:
    labels = np.arange(60) % 3
    expected = Mahalanobis("oas").fit(ROWS, labels).score_samples(ROWS)
    large = ROWS * 2.0**300
    scores = Mahalanobis("oas").fit(large, labels).score_samples(large)
    np.testing.assert_allclose(scores, expected, rtol=1e-9)
    with pytest.raises(InputError, match="the features are so large that fourth powers overflow"):
        Mahalanobis("ledoit_wolf").fit(large, labels)
