"""Calibrated detectors: p-values, decisions, classes, confidence, streams, merges and files."""

from __future__ import annotations

import copy
import json
import math
import subprocess
import sys
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import torch
from helpers.data import Data, fitted, make_data
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import typica
from typica import CTM, CW, KNN, CalibrationWarning, InputError
from typica.calibration import (
    calibration_size,
    guaranteed_rank,
    p_values,
    pool_rare,
)
from typica.decide import fingerprint
from typica.detectors import final_detector
from typica.detectors.base import Detector
from typica.metrics import rate_interval
from typica.tags import Tags

INF = math.inf
tied = st.sampled_from([-INF, -2.0, -0.0, 0.0, 0.5, 1.0, 3.0, INF])
any_scores = st.lists(tied | st.floats(allow_nan=False), min_size=1, max_size=30)


class First(Detector):
    """The first feature is the score, the second the class."""

    tags = Tags(needs_fit=False)

    def _score(self, Z):
        return Z[:, 0]

    def _similarities(self, Z):
        return Z[:, 1:2] == np.arange(4.0)

    @property
    def classes_(self):
        return np.array(["ant", "bee", "cat", "dog"])


def rows(scores, classes=0):
    return np.stack(
        np.broadcast_arrays(np.asarray(scores, dtype=np.float64), classes), axis=1
    ).astype(np.float64)


def calibrated(scores, **options):
    return First().calibrate(rows(scores), **options)


def verdicts(detector, X, **options):
    """+1 and -1, at another level than that of the calibration."""
    return np.where(detector.judge(X, **options).typical, 1, -1)


# p-values


@given(any_scores, any_scores)
def test_p_values_by_definition(calibration, scores):
    wanted = [Fraction(1 + sum(c <= s for c in calibration), len(calibration) + 1) for s in scores]
    np.testing.assert_array_equal(p_values(scores, calibration), np.array(wanted, dtype=np.float64))


@given(any_scores, any_scores)
def test_randomised_p_values_by_definition(calibration, scores):
    uniform = 1 - np.random.default_rng(5).random(len(scores))
    below = [sum(c < s for c in calibration) for s in scores]
    equal = [sum(c == s for c in calibration) for s in scores]
    wanted = (np.array(below) + uniform * (1 + np.array(equal))) / (len(calibration) + 1)
    found = p_values(scores, calibration, np.random.default_rng(5))
    np.testing.assert_allclose(found, wanted, rtol=1e-14)
    assert (found > 0).all() and (found <= p_values(scores, calibration)).all()


def test_detector_gives_the_p_values_of_its_scores(data: Data):
    detector = CTM().fit(data.train, data.labels)
    conformal = detector.calibrate(data.held_out)
    known, scores = detector.score_samples(data.held_out), detector.score_samples(data.test)
    wanted = [(1 + sum(known <= s)) / (len(known) + 1) for s in scores]
    np.testing.assert_array_equal(conformal.p_values(data.test), wanted)
    first, again, other = (
        conformal.p_values(data.test, randomised=True, seed=seed) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    judged = conformal.judge(data.test, alpha=0.1)
    np.testing.assert_array_equal(judged.score, scores)
    np.testing.assert_array_equal(judged.p_value, wanted)
    np.testing.assert_array_equal(judged.typical, judged.p_value > 0.1)


# Decisions


@given(st.lists(st.integers(-3, 9), min_size=1, max_size=60), st.integers(1, 1000))
def test_decisions_are_those_of_the_detectors_own_threshold(calibration, thousandths):
    """Row for row, with ties, in exact arithmetic.

    They agree whether alpha is 1 - tpr or the decimal that is meant.
    """
    tpr = thousandths / 1000
    new = rows(np.linspace(-4, 10, 57))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        wanted = First().calibrate(rows(calibration), tpr=tpr).predict(new)
        conformal = calibrated(calibration)
        for alpha in (1 - tpr, Fraction(1000 - thousandths, 1000), f"{1000 - thousandths}/1000"):
            np.testing.assert_array_equal(verdicts(conformal, new, alpha=alpha), wanted)
    exact = Fraction(1000 - thousandths, 1000)
    n = len(calibration)
    rejected = [Fraction(1 + sum(c <= s for c in calibration), n + 1) <= exact for s in new[:, 0]]
    np.testing.assert_array_equal(wanted == -1, rejected)


@pytest.mark.parametrize(
    "precisions", [(np.float32, np.float32), (np.float64, np.float32), (np.float32, np.float64)]
)
def test_decisions_agree_across_precisions(data: Data, precisions):
    """Calibrated in one precision and asked in the other, on the rows where a last bit decides."""
    first, second = precisions
    detector = CTM().fit(data.train, data.labels)
    held_out, new = (
        data.held_out[:99].astype(first),
        np.concatenate([data.held_out, data.test]).astype(second),
    )
    for percent in range(1, 100):
        tpr = percent / 100
        wanted = detector.calibrate(held_out, tpr=tpr).predict(new)
        detector.calibrate(held_out)
        np.testing.assert_array_equal(verdicts(detector, new, alpha=1 - tpr), wanted)
        np.testing.assert_array_equal(detector.p_values(new) <= (100 - percent) / 100, wanted == -1)


def test_every_detector(name: str):
    data = make_data()
    detector = fitted(name, data)
    wanted = detector.calibrate(data.held_out, tpr=0.9).predict(data.test)
    conformal = detector.calibrate(data.held_out)
    np.testing.assert_array_equal(verdicts(conformal, data.test, alpha=0.1), wanted)
    judged = conformal.judge(data.test)
    np.testing.assert_array_equal(judged.score, detector.score_samples(data.test))
    np.testing.assert_array_equal(judged.typical, detector.predict(data.test) == 1)
    np.testing.assert_array_equal(judged.p_value, detector.p_values(data.test))
    assert conformal.p_values(data.ood).mean() < conformal.p_values(data.test).mean()


def test_pipeline(data: Data, tmp_path):
    pipeline = make_pipeline(StandardScaler(with_mean=False), CTM()).fit(data.train, data.labels)
    typica.calibrate(pipeline, data.held_out, tpr=0.9)
    judged = typica.judge(pipeline, data.test)
    np.testing.assert_array_equal(judged.typical, pipeline.predict(data.test) == 1)
    np.testing.assert_array_equal(judged.p_value, typica.p_values(pipeline, data.test))
    np.testing.assert_array_equal(judged.p_value <= 0.1, ~judged.typical)
    strange = typica.discoveries(pipeline, data.ood, fdr=0.2)
    np.testing.assert_array_equal(~typica.judge(pipeline, data.ood, fdr=0.2).typical, strange)
    typica.save(pipeline, tmp_path / "p.safetensors")
    loaded = typica.load(tmp_path / "p.safetensors")
    np.testing.assert_array_equal(typica.p_values(loaded, data.test), judged.p_value)
    told = typica.explain(pipeline, data.test[:2], bank=data.held_out)
    scaled = pipeline[:-1].transform(data.held_out)
    same = pipeline[-1].explain(pipeline[:-1].transform(data.test[:2]), bank=scaled)
    assert told == same and len(told[0].examples) == 3
    with pytest.warns(CalibrationWarning, match="4 of 4 classes"):
        typica.calibrate(pipeline, data.held_out, by_class=True)
    assert typica.p_values(pipeline, data.test).shape == (len(data.test),)


def test_parts_of_a_pipelines_calibration_merge_only_if_all_steps_are_equal(data: Data):
    def calibrated_on(held_out, scale):
        scaler = StandardScaler(with_mean=False)
        pipeline = make_pipeline(scaler, CTM()).fit(data.train * scale, data.labels)
        return typica.calibrate(pipeline, held_out)

    half = len(data.held_out) // 2
    first, second = (calibrated_on(part, 1) for part in np.split(data.held_out, [half]))
    whole = calibrated_on(data.held_out, 1)
    first[-1].calibration_.merge(second[-1].calibration_)
    np.testing.assert_array_equal(
        typica.p_values(first, data.test), typica.p_values(whole, data.test)
    )
    with pytest.raises(InputError, match=r"not known to be equal"):
        first[-1].calibration_.merge(calibrated_on(data.held_out, 2)[-1].calibration_)


def test_torch_tensors(data: Data):
    torch = pytest.importorskip("torch")
    conformal = CTM().fit(data.train, data.labels).calibrate(torch.tensor(data.held_out))
    same = CTM().fit(data.train, data.labels).calibrate(data.held_out)
    np.testing.assert_allclose(
        conformal.p_values(torch.tensor(data.test)), same.p_values(data.test), atol=0.02
    )


# Training-conditional confidence


@pytest.mark.parametrize("alpha", [0.001, 0.01, 0.05, 0.3])
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.99])
def test_guaranteed_rank_agrees_with_scipy(alpha, confidence):
    for n in (1, 2, 10, 99, 500, 10_000):
        k = guaranteed_rank(n, alpha, confidence)
        # The false-alarm rate of the k-th smallest of n is Beta(k, n + 1 - k); that of the next is
        # too much.
        assert k == 0 or stats.beta.cdf(alpha, k, n + 1 - k) >= confidence
        assert stats.beta.cdf(alpha, k + 1, n - k) < confidence if k < n else True
        assert k == sum(stats.binom.sf(np.arange(n), n, alpha) >= confidence)
    need = calibration_size(alpha, confidence)
    assert 1 - (1 - alpha) ** need >= confidence > 1 - (1 - alpha) ** (need - 1)
    assert (
        guaranteed_rank(need, alpha, confidence) == 1
        and guaranteed_rank(need - 1, alpha, confidence) == 0
    )


def test_sizes():
    assert [calibration_size(alpha) for alpha in (0.5, 0.1, 0.05, 0.01, "1/3", 1 - 0.9)] == [
        1,
        9,
        19,
        99,
        2,
        9,
    ]
    assert calibration_size(0.5, 0.75) == 2
    assert calibration_size(1e-6, 0.99) == 4_605_168
    for alpha in (0.5, 0.1, 0.07):
        need = calibration_size(alpha)
        assert guaranteed_rank(need, alpha) == 1 and guaranteed_rank(need - 1, alpha) == 0
    with pytest.raises(InputError, match=r"calibration_size: alpha=0 is not a share"):
        calibration_size(0)
    with pytest.raises(InputError, match=r"calibration_size: confidence=1 is not a share"):
        calibration_size(0.1, 1)


def test_rate_interval_agrees_with_scipy():
    for hits, n in ((0, 1), (1, 1), (3, 10), (0, 50), (50, 50), (17, 1000)):
        wanted = stats.binomtest(hits, n).proportion_ci(0.95, method="exact")
        assert rate_interval(hits, n) == pytest.approx((wanted.low, wanted.high), abs=1e-12)


def test_confidence_lowers_the_threshold_and_refuses_too_few():
    scores = np.arange(1000.0)
    conformal = calibrated(scores)
    summary = calibrated(scores, confidence=0.99).calibration_.to_dict()
    assert summary["groups"]["all"] == {"n": 1000, "kept": 1000, "k": 35, "threshold": 34.0}
    assert (verdicts(conformal, rows(scores), confidence=0.99) == -1).sum() == 34
    assert (calibrated(scores, confidence=0.99).predict(rows(scores)) == -1).sum() == 34
    assert (conformal.predict(rows(scores)) == -1).sum() == 49
    few = calibrated(np.arange(89.0))
    with pytest.raises(
        InputError,
        match=r"judge: 89 calibration inputs are too few for alpha=0.05 with confidence=0.99; "
        r"pass at least 90, or a larger alpha",
    ):
        few.judge(rows([1.0]), confidence=0.99)
    with pytest.raises(InputError, match=r"First.calibrate: 89 calibration inputs are too few"):
        calibrated(np.arange(89.0), confidence=0.99)
    assert calibrated(np.arange(90.0), confidence=0.99).predict(rows([-1.0])).tolist() == [-1]


# Classes


def test_by_class_by_definition():
    rng = np.random.default_rng(0)
    names = np.array(["ant", "bee", "cat", "dog"])
    held_out, new = (
        rows(rng.integers(0, 50, n), rng.integers(0, high, n)) for n, high in ((400, 3), (200, 4))
    )
    groups = {"ant": "insect", "bee": "insect"}
    conformal = First().calibrate(held_out, by_class=True, groups=groups)

    def group(code):
        return groups.get(names[int(code)], names[int(code)])

    wanted = []
    for score, code in new:
        peers = [s for s, c in held_out if group(c) == group(code)]
        wanted.append((1 + sum(s <= score for s in peers)) / (len(peers) + 1))
    np.testing.assert_array_equal(conformal.p_values(new), wanted)
    assert all(
        p == 1 for p, (_, code) in zip(wanted, new, strict=True) if code == 3
    )  # no dog to compare with
    np.testing.assert_array_equal(conformal.judge(new, alpha=0.2).typical, np.array(wanted) > 0.2)
    by_hand = First().calibrate(
        rows(held_out[:, 0]),
        by_class=True,
        groups=groups,
        alpha=0.2,
        predicted=names[held_out[:, 1].astype(int)],
    )
    predicted = names[new[:, 1].astype(int)]
    alone = rows(new[:, 0])
    np.testing.assert_array_equal(by_hand.p_values(alone, predicted=predicted), wanted)
    typical = np.array(wanted) > 0.2
    np.testing.assert_array_equal(by_hand.predict(alone, predicted=predicted) == 1, typical)
    differences = by_hand.decision_function(alone, predicted=predicted)
    np.testing.assert_array_equal(differences >= 0, typical)
    own = [by_hand.offsets_.get(group(code), -INF) for _, code in new]
    np.testing.assert_array_equal(differences, new[:, 0] - own)
    assert sorted(conformal.offsets_) == ["cat", "insect"]
    with pytest.raises(AttributeError, match=r"calibrated by class: there is one threshold per"):
        by_hand.offset_  # noqa: B018
    randomised = conformal.p_values(new, randomised=True, seed=0)
    assert (randomised <= wanted).all() and (randomised < wanted).any()


def test_rare_classes_are_pooled_by_training_counts():
    data = make_data(n=240)
    labels = data.labels.copy()
    few = np.flatnonzero(labels >= 2)[6:]
    train, labels = np.delete(data.train, few, axis=0), np.delete(labels, few)
    detector = CTM().fit(train, labels)
    held_out = np.concatenate([data.held_out] * 3)
    told = (
        r"2 of 4 classes \(2, 3\) share one threshold, .* fewer than 100 of the \d+ rows; "
        rf"pass {int(np.ceil(100 * len(labels) / np.bincount(labels).min()))} rows"
    )
    with pytest.warns(CalibrationWarning, match=told):
        made = detector.calibrate(held_out, by_class=True).calibration_
    assert made.taxonomy == {"2": "rare", "3": "rare"}
    assert set(made.samples) == {"0", "1", "rare"}
    stream = CTM().fit(train, labels).partial_calibrate(held_out, by_class=True)
    assert set(stream.calibration_.samples) == {"0", "1", "2", "3"}


def test_pool_rare():
    assert pool_rare([0, 1, 2], [50, 30, 20], n=100, smallest=25) == {2: "rare"}
    assert pool_rare(["a"], [1], n=10) == {"a": "rare"}
    assert pool_rare(["a"], [1], n=100) == {}
    assert pool_rare(["rare", "b"], [500, 1], n=501) == {"b": "rare+"}
    with pytest.raises(
        InputError, match=r"pool_rare: 2 classes, counts \[0\. 0\.\]; pass one count per class"
    ):
        pool_rare(["a", "b"], [0, 0], n=10)
    with pytest.raises(InputError, match=r"pool_rare: 1 classes"):
        pool_rare(["a"], [1, 2], n=10)


# Streams, sketches and merges


def test_streamed_and_merged_calibration_equal_the_whole(data: Data):
    def detector():
        return CTM().fit(data.train, data.labels)

    for options in ({}, {"by_class": True, "groups": {0: "rare", 1: "rare"}, "alpha": 0.2}):
        whole = detector().calibrate(data.held_out, **options)
        stream = detector()
        for i, batch in enumerate(np.array_split(data.held_out, 7)):
            stream.partial_calibrate(batch, **({} if i else options))
            stream.p_values(data.test)  # asking in between changes nothing
        parts = [
            detector().calibrate(batch, **options) for batch in np.array_split(data.held_out, 3)
        ]
        for other in parts[1:]:
            parts[0].calibration_.merge(other.calibration_)
        for other in (stream, parts[0]):
            assert other.calibration_.n == len(data.held_out)
            np.testing.assert_array_equal(other.p_values(data.test), whole.p_values(data.test))
            np.testing.assert_array_equal(other.predict(data.test), whole.predict(data.test))
            assert other.offsets_ == whole.offsets_
    again = detector().calibrate(data.held_out).calibrate(data.held_out[:50])
    assert again.calibration_.n == 50
    with pytest.raises(InputError, match=r"partial_calibrate: the first batch decided alpha"):
        again.partial_calibrate(data.held_out, alpha=0.1)


def test_merge_refuses_another_fit(data: Data):
    one = CTM().fit(data.train, data.labels).calibrate(data.held_out)
    other = CTM().fit(data.train[:100], data.labels[:100]).calibrate(data.held_out)
    with pytest.raises(InputError, match=r"Calibration.merge: the two detectors are not known to"):
        one.calibration_.merge(other.calibration_)
    assert one.calibration_.n == len(data.held_out)


def test_fingerprint_tells_fits_apart_and_leaves_thresholds_out(data: Data):
    detector = CTM().fit(data.train, data.labels)
    before = fingerprint(detector)
    assert fingerprint(detector.calibrate(data.held_out)) == before and hasattr(detector, "offset_")
    moved = data.train.copy()
    moved[0, 0] += 1e-9
    assert fingerprint(CTM().fit(moved, data.labels)) != before
    pipelines = [
        make_pipeline(StandardScaler(), CTM()).fit(X, data.labels)
        for X in (data.train, data.train, moved)
    ]
    assert len({fingerprint(pipeline) for pipeline in pipelines}) == 2
    assert fingerprint(pipelines[0]) != before


def test_a_sample_keeps_p_values_valid_and_decisions_equal_to_them():
    rng = np.random.default_rng(0)
    scores, new = rng.normal(size=20_000), rows(rng.normal(size=500))
    exact, some = calibrated(scores), calibrated(scores)
    some.calibration_.limit_to(999)
    assert some.calibration_.n == 20_000 and some.calibration_.samples["all"].kept == 999
    assert np.abs(some.p_values(new) - exact.p_values(new)).max() < 0.1
    kept = some.calibration_.scores
    wanted = [(1 + sum(kept <= score)) / 1000 for score in new[:, 0]]
    np.testing.assert_array_equal(some.p_values(new), wanted)
    np.testing.assert_array_equal(some.predict(new) == -1, some.p_values(new) <= 0.05)
    some.discoveries(new)
    typica.Monitor(some).observe(new)


# Batches


def test_discoveries():
    calibration = np.arange(199.0)
    new = rows(np.concatenate([np.full(20, -1.0), np.arange(5.0, 195.0, 10)]))
    conformal = calibrated(calibration)
    p = np.array([(1 + sum(calibration <= s)) / 200 for s, _ in new])
    for method, wanted in (("bh", 20), ("storey", 20)):
        found = conformal.discoveries(new, fdr=0.1, method=method)
        assert found.sum() >= wanted and found[:20].all()
    np.testing.assert_array_equal(
        conformal.discoveries(new, fdr=0.1), stats.false_discovery_control(p) <= 0.1 * (1 + 1e-9)
    )
    with pytest.raises(InputError, match=r"discoveries: method='holm'; pass 'bh' or 'storey'"):
        conformal.discoveries(new, method="holm")
    with pytest.raises(InputError, match=r"discoveries: lam=0 is not a share"):
        conformal.discoveries(new, method="storey", lam=0)
    by_class = First().calibrate(rows(calibration), by_class=True)
    np.testing.assert_array_equal(by_class.discoveries(new), conformal.discoveries(new))
    with pytest.raises(
        InputError, match=r"discoveries: 'storey' needs one calibration set for all; use 'bh'"
    ):
        by_class.discoveries(new, method="storey")


@pytest.mark.parametrize("n", [1, 2, 10, 11, 12])
def test_storey_takes_a_lam_that_the_p_values_can_have(n):
    """lam is lowered to a multiple of 1 / (n + 1), and p-values equal to it count as large."""
    rng = np.random.default_rng(n)
    conformal = calibrated(np.arange(float(n)), alpha=0.5)
    lam = Fraction(max(1, (n + 1) // 2), n + 1)
    for _ in range(200):
        counts = rng.integers(0, rng.integers(1, n + 2), size=6)
        p = [Fraction(1 + min(int(count), n), n + 1) for count in counts]
        pi0 = (1 + sum(x >= lam for x in p)) / (6 * (1 - lam))
        passing = [x for k, x in enumerate(sorted(p), 1) if x * 6 * pi0 <= Fraction(4, 10) * k]
        wanted = [bool(passing) and x <= passing[-1] for x in p]
        assert (
            conformal.discoveries(rows(counts - 0.5), fdr=0.4, method="storey").tolist() == wanted
        )


# Adversarial input


def test_constant_scores_reject_nothing():
    with pytest.warns(CalibrationWarning, match="100 % of the 99 calibration scores equal"):
        conformal = calibrated(np.zeros(99))
    assert conformal.p_values(rows([0.0, -1.0, 1.0])).tolist() == [1.0, 0.01, 1.0]
    assert conformal.predict(rows([0.0, -1.0, 1.0])).tolist() == [1, -1, 1]
    assert not conformal.discoveries(rows(np.zeros(50))).any()


def test_one_calibration_input():
    conformal = calibrated([3.0], alpha=0.5)
    assert conformal.p_values(rows([2.0, 3.0])).tolist() == [0.5, 1.0]
    assert conformal.predict(rows([2.0, 3.0])).tolist() == [-1, 1]
    with pytest.warns(
        CalibrationWarning,
        match=r"^1 calibration inputs are too few to reject anything at alpha=0.05; "
        r"pass at least 19, or a larger alpha",
    ) as caught:
        assert calibrated([3.0]).predict(rows([-1e9])).tolist() == [1]
    assert [warning.filename for warning in caught] == [__file__]
    assert verdicts(conformal, rows([-1e9]), alpha=0).tolist() == [1]


def test_too_small_a_group_is_named():
    held_out = rows(np.arange(31.0), np.repeat([0, 1], [30, 1]))
    with pytest.warns(
        CalibrationWarning,
        match=r"1 calibration inputs of group 'bee' are .* at least 19 per group",
    ):
        conformal = First().calibrate(held_out, by_class=True)
    assert conformal.predict(rows([-1.0, -1.0], [0, 1])).tolist() == [-1, 1]
    with pytest.raises(
        InputError,
        match=r"calibrate: 1 calibration inputs of group 'bee' are too few for alpha=0.05 with",
    ):
        conformal.calibrate(held_out, by_class=True, confidence=0.9)
    assert conformal.calibration_.levels.confidence is None  # as it was


def test_infinite_scores_are_legal_and_nan_is_not():
    assert p_values([-INF, INF], [-INF, 0.0, INF]).tolist() == [0.5, 1.0]
    with pytest.raises(
        InputError, match=r"p_values: score 1 is NaN; fix the input or the detector"
    ):
        p_values([0.0, np.nan], [1.0])
    with pytest.raises(InputError, match=r"p_values: score 0 is NaN"):
        p_values([0.0], [np.nan])
    assert p_values([], [1.0]).shape == (0,)
    assert p_values([1.0], []).tolist() == [1.0]
    with pytest.raises(
        InputError, match=r"p_values: scores of shape \(1, 1\) and type float64; pass a 1-D array"
    ):
        p_values([[1.0]], [1.0])

    class Broken(First):
        def _score(self, Z):
            return Z[:, 0] * np.nan

    with pytest.raises(InputError, match=r"Broken.calibrate: score 0 is NaN"):
        Broken().calibrate(rows([1.0]))


def test_bad_input(data: Data):
    with pytest.raises(InputError, match=r"judge: StandardScaler is not a detector; pass a detect"):
        typica.judge(StandardScaler(), data.test)
    with pytest.raises(InputError, match=r"groups without by_class; pass by_class=True as well"):
        First().calibrate(rows([1.0]), groups={})
    with pytest.raises(InputError, match=r"alpha=0.1 and tpr=0.9 say the same thing twice"):
        First().calibrate(rows([1.0]), alpha=0.1, tpr=0.9)
    with pytest.raises(TypeError, match=r"positional"):
        First().calibrate(rows([1.0]), 0.95)
    with pytest.raises(NotFittedError, match=r"CTM.calibrate: this CTM is not fitted yet"):
        CTM().calibrate(data.held_out)
    fitted_only = CTM().fit(data.train, data.labels)
    assert (fitted_only.predict(data.train) == 1).mean() > 0.9  # by the threshold of the fit
    assert fitted_only.judge(data.test).p_value is None
    for method in ("p_values", "discoveries"):
        with pytest.raises(
            NotFittedError, match=rf"CTM.{method}: there are no calibration scores; call calibrate"
        ):
            getattr(fitted_only, method)(data.test)
    for option in ("alpha", "confidence", "fdr"):
        with pytest.raises(NotFittedError, match=r"CTM.judge: there are no calibration scores"):
            fitted_only.judge(data.test, **{option: 0.1})
    conformal = calibrated(np.arange(99.0))
    with pytest.raises(InputError, match=r"0 sample\(s\)"):
        conformal.calibrate(np.empty((0, 2)))
    assert conformal.calibration_.n == 99
    for alpha in (1, -0.1, np.nan, "lots"):
        for method in (conformal.judge, conformal.calibrate):
            with pytest.raises(
                InputError,
                match=r"alpha=.* is not a share; pass a number at least 0 and below 1",
            ):
                method(rows([1.0]), alpha=alpha)
    with pytest.raises(InputError, match=r"confidence=2 is not a share"):
        conformal.judge(rows([1.0]), confidence=2)
    with pytest.raises(InputError, match=r"p_values: seed=-1 is not a seed; pass an integer of at"):
        conformal.p_values(rows([1.0]), randomised=True, seed=-1)
    with pytest.raises(InputError, match=r"calibrate: groups is a list, not a mapping; pass"):
        conformal.calibrate(rows([1.0]), by_class=True, groups=["a", "b"])
    with pytest.raises(
        InputError, match=r"p_values: predicted classes are for by_class=True; leave them out"
    ):
        conformal.p_values(rows([1.0]), predicted=["ant"])
    by_class = First().calibrate(rows(np.arange(99.0)), by_class=True)
    with pytest.raises(
        InputError, match=r"p_values: predicted has shape \(2,\) for 1 row; pass one per row"
    ):
        by_class.p_values(rows([1.0]), predicted=["ant", "bee"])


def test_input_is_not_written_to(data: Data):
    held_out, test = data.held_out.copy(), data.test.copy()
    conformal = CTM().fit(data.train, data.labels).calibrate(held_out)
    conformal.p_values(test)
    conformal.judge(test)
    np.testing.assert_array_equal(held_out, data.held_out)
    np.testing.assert_array_equal(test, data.test)


# Files


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"by_class": True, "groups": {0: "$rare", 1: "$rare"}},
        {"alpha": "0.1", "confidence": 0.8},
    ],
)
def test_saved_and_loaded(data: Data, tmp_path, options):
    def made():
        return CW(data.head).calibrate(data.held_out, source="held_out.npy", **options)

    conformal, path = made(), tmp_path / "cw.safetensors"
    conformal.save(path)
    loaded = typica.load(path)
    assert type(loaded) is CW
    np.testing.assert_array_equal(loaded.p_values(data.test), conformal.p_values(data.test))
    np.testing.assert_array_equal(loaded.predict(data.test), conformal.predict(data.test))
    assert loaded.calibration_.to_dict() == conformal.calibration_.to_dict()
    again = tmp_path / "again.safetensors"
    typica.load(path).save(again)
    assert again.read_bytes() == path.read_bytes()
    loaded.partial_calibrate(data.test)
    conformal.partial_calibrate(data.test)
    np.testing.assert_array_equal(loaded.p_values(data.ood), conformal.p_values(data.ood))
    with pytest.raises(InputError, match=r"row 0 of 'held_out.npy' comes twice"):
        loaded.calibration_.merge(made().calibration_)


def test_a_fresh_process_finds_the_classes(data: Data, tmp_path):
    path = tmp_path / "cw.safetensors"
    CW(data.head).calibrate(data.held_out, by_class=True).save(path)
    code = f"import typica; print(typica.load({str(path)!r}).calibration_.n)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{len(data.held_out)}\n"


def test_explain_tells_verdict_p_value_and_nearest_known_inputs(data):
    detector = typica.CTM().fit(data.train, data.labels)
    conformal = detector.calibrate(data.held_out, alpha="0.1")
    inputs = np.concatenate([data.test[:5], data.ood[:5]])
    answers = conformal.explain(inputs, bank=data.held_out)
    judged = conformal.judge(inputs)
    assert [answer.p_value for answer in answers] == judged.p_value.tolist()
    assert [answer.typical for answer in answers] == judged.typical.tolist()
    for answer, z in zip(answers, inputs, strict=True):
        cosines = [b @ z / np.linalg.norm(b) / np.linalg.norm(z) for b in data.held_out]
        assert list(answer.examples) == np.argsort(np.negative(cosines), kind="stable")[:3].tolist()
    assert answers[0].nearest == detector.classify(inputs)[0] and len(answers[0].contributions) == 5
    assert f"p-value {answers[-1].p_value:.4g}" in str(
        answers[-1]
    ) and "nearest known inputs" in str(answers[-1])
    assert conformal.explain(inputs[:1])[0].examples == ()
    zero = np.zeros((1, data.held_out.shape[1]))
    with_zero = conformal.explain(inputs[:1], bank=np.concatenate([zero, data.held_out]))[0]
    assert [place - 1 for place in with_zero.examples] == list(answers[0].examples)


def test_the_threshold_of_the_fit_is_no_calibration(data: Data, tmp_path):
    detector = CTM().fit(data.train, data.labels)
    assert not hasattr(detector, "calibration_") and np.isfinite(detector.offset_)
    assert detector.explain(data.test[:1])[0].percentile is None
    detector.save(tmp_path / "d.safetensors")
    assert typica.load(tmp_path / "d.safetensors").offset_ == detector.offset_
    detector.partial_fit(data.train, data.labels)
    assert not hasattr(detector, "offset_") and detector.judge(data.test).typical is None
    assert detector.calibrate(data.held_out).offset_ == detector.calibration_.threshold
    detector.partial_fit(data.train, data.labels)
    assert not hasattr(detector, "calibration_")


def test_other_parameters_make_a_threshold_stale(data: Data, tmp_path):
    detector = KNN(k=5).fit(data.train, data.labels).calibrate(data.held_out)
    before = detector.p_values(data.test)
    detector.save(tmp_path / "d.safetensors")
    for one in (detector, typica.load(tmp_path / "d.safetensors"), copy.copy(detector)):
        one.set_params(k=55)
        for ask in (one.predict, one.p_values, one.discoveries):
            with pytest.raises(
                NotFittedError, match=r"there (is no threshold yet|are no calibrat)"
            ):
                ask(data.test)
        assert not hasattr(one, "offset_") and one.judge(data.test).typical is None
        one.partial_calibrate(data.held_out)
        whole = KNN(k=55).fit(data.train, data.labels).calibrate(data.held_out)
        np.testing.assert_array_equal(one.p_values(data.test), whole.p_values(data.test))
        one.set_params(k=5).calibrate(data.held_out)
        np.testing.assert_array_equal(one.p_values(data.test), before)


def test_levels_of_judge_take_the_place_of_those_of_calibrate(data: Data):
    detector = CTM().fit(data.train, data.labels)
    detector.calibrate(data.held_out, alpha=0.2, confidence=0.9)
    own = detector.judge(data.test)
    assert detector.judge(data.test, alpha=0.2).threshold[0] == own.threshold[0]
    assert detector.judge(data.test, confidence=0.9).threshold[0] == own.threshold[0]
    assert detector.judge(data.test, confidence=0.99).threshold[0] < own.threshold[0]
    with pytest.raises(
        InputError,
        match=r"CTM.judge: fdr cannot be combined with other levels; leave out alpha and conf",
    ):
        detector.judge(data.test, alpha=0.1, fdr=0.1)


def test_alpha_and_tpr_are_one_choice_wherever_a_level_is_taken(data: Data):
    detector = CTM().fit(data.train, data.labels).calibrate(data.held_out)
    wanted = detector.judge(data.test, alpha=0.2).verdict.tolist()
    assert detector.judge(data.test, tpr=0.8).verdict.tolist() == wanted
    assert typica.judge(detector, data.test, tpr=0.8).verdict.tolist() == wanted
    told = [one.typical for one in detector.explain(data.test, tpr=0.8)]
    assert told == [verdict == "typical" for verdict in wanted]
    known, strange = detector.score_samples(data.test), detector.score_samples(data.ood)
    assert typica.evaluate(known, strange, alpha=0.2) == typica.evaluate(known, strange, tpr=0.8)
    assert typica.evaluate(known, strange) == typica.evaluate(known, strange, alpha=0.05)
    for call in (detector.judge, detector.explain):
        with pytest.raises(InputError, match=r"alpha=0.2 and tpr=0.8 say the same thing twice"):
            call(data.test, alpha=0.2, tpr=0.8)
    with pytest.raises(InputError, match=r"evaluate: alpha=1.5 is not a share; pass a number at l"):
        typica.evaluate(known, strange, alpha=1.5)


def test_a_threshold_has_its_own_name_beside_that_of_scikit_learn(data: Data):
    detector = CTM().fit(data.train, data.labels)
    assert detector.threshold_ == detector.offset_
    detector.calibrate(data.held_out)
    assert detector.threshold_ == detector.offset_ == detector.calibration_.threshold
    assert detector.thresholds_ == detector.offsets_ == {"all": detector.threshold_}
    detector.calibrate(data.held_out, alpha=0.2, by_class=True, groups={})
    assert detector.thresholds_ == detector.offsets_ and len(detector.thresholds_) > 1
    assert not hasattr(detector, "threshold_")  # there is one per group
    assert not hasattr(CTM(), "threshold_")


def test_scoring_leaves_the_fingerprint_as_it_was(data: Data):
    half = len(data.train) // 2
    detector = KNN(k=5).partial_fit(data.train[:half]).partial_fit(data.train[half:])
    before = detector.fingerprint()
    detector.score_samples(data.test)
    assert detector.fingerprint() == before


@pytest.fixture
def stale(data: Data) -> KNN:
    """A detector whose calibration is that of other parameters."""
    return KNN(k=5).fit(data.train).calibrate(data.held_out).set_params(k=50)


def test_a_stale_calibration_is_neither_stored_nor_told_of(data: Data, stale, tmp_path):
    stale.save(tmp_path / "d.safetensors")
    loaded = typica.load(tmp_path / "d.safetensors")
    for detector in (loaded, stale):
        with pytest.raises(NotFittedError, match="there is no threshold yet"):
            detector.predict(data.test)
        assert "no threshold" in repr(detector) and "no threshold" in detector._repr_html_()
        assert "threshold" not in typica.decide.describe(detector)


def test_a_stale_calibration_says_nothing(data: Data, stale):
    assert "no threshold" in repr(stale)
    stale.calibrate(data.held_out).set_params(k=5)
    with pytest.raises(InputError, match="Monitor: a detector without calibration scores"):
        typica.Monitor(stale)


def test_a_monitor_keeps_the_calibration_that_it_began_with(data: Data):
    detector = CTM().fit(data.train, data.labels).calibrate(data.held_out)
    monitor = typica.Monitor(detector)
    before = monitor.calibration.threshold
    detector.partial_calibrate(data.ood)
    assert monitor.calibration.threshold == before != detector.offset_
    monitor = typica.Monitor(detector.calibration_)
    before = monitor.calibration.n
    detector.partial_calibrate(data.train)
    assert monitor.calibration.n == before < detector.calibration_.n


@pytest.mark.parametrize("in_pipeline", [False, True])
def test_what_a_copy_is_calibrated_on_leaves_the_detector_as_it_is(data: Data, in_pipeline):
    estimator = CTM().fit(data.train, data.labels).calibrate(data.held_out)
    if in_pipeline:
        estimator = make_pipeline(FunctionTransformer(), estimator)
    before = final_detector(estimator).offset_
    copied = typica.decide.copy_to_calibrate(estimator)
    typica.partial_calibrate(copied, data.ood)
    assert final_detector(copied).offset_ != before
    assert final_detector(estimator).offset_ == before


@pytest.mark.parametrize(
    ("detector", "told"),
    [
        (typica.Ensemble([CTM(), KNN(k=3)]), {"members": ["CTM()", "KNN(k=3)"]}),
        (KNN(k=np.int64(3)), {"k": 3}),
        (KNN(k=3, subsample=np.float32(0.5)), {"subsample": 0.5}),
        (typica.Prototypes(np.eye(4, 12)), {"positive": "array of 4 x 12"}),
    ],
    ids=["members", "integer", "float", "array"],
)
def test_every_parameter_is_described_as_json(detector, told, data: Data):
    described = typica.decide.describe(detector.fit(data.train, data.labels))
    again = json.loads(json.dumps(described, allow_nan=False))
    assert again["params"] == described["params"] and described["params"].items() >= told.items()


@pytest.mark.parametrize("unknown", [None, math.nan, pd.NA, {"a": 1}], ids=str)
def test_what_names_no_class_is_no_predicted_class(unknown, data: Data):
    detector = CTM().fit(data.train, data.labels)
    predicted = np.full(len(data.held_out), "a", dtype=object)
    predicted[7] = unknown
    with pytest.raises(InputError, match=r"predicted class .* of row 7 is neither a number nor a"):
        detector.calibrate(data.held_out, by_class=True, groups={}, predicted=predicted)
    calibration = typica.Calibration(by_class=True)
    with pytest.raises(
        InputError, match=r"Calibration.add: predicted class .* of row 7 is neither"
    ):
        calibration.add(np.zeros(len(predicted)), predicted)


def test_predicted_classes_that_are_not_known_are_refused_among_numbers_too(data: Data):
    detector = CTM().fit(data.train, data.labels)
    predicted = np.where(np.arange(len(data.held_out)) == 3, np.nan, 1.0)
    with pytest.raises(InputError, match=r"CTM.calibrate: predicted class nan of row 3 is neither"):
        detector.calibrate(data.held_out, by_class=True, groups={}, predicted=predicted)


def test_thresholds_that_a_caller_changes_are_the_callers_own(data: Data):
    detector = CTM().fit(data.train, data.labels).calibrate(data.held_out)
    before = detector.offset_
    detector.calibration_.thresholds()["all"] = 2.0
    assert detector.offset_ == before


def test_a_calibration_of_another_fit_is_refused(data: Data):
    one, other = (CTM().fit(data.train + shift, data.labels) for shift in (0.0, 1.0))
    other.calibrate(data.held_out)
    with pytest.raises(InputError, match="holds the scores of another fit"):
        one.set_calibration(other.calibration_)
    with pytest.raises(InputError, match="holds the scores of another fit"):
        typica.decide.set_calibration(make_pipeline(one), other.calibration_)


def test_the_same_rows_do_not_merge_with_themselves(data: Data):
    one, other = (CTM().fit(data.train, data.labels).calibrate(data.held_out) for _ in range(2))
    with pytest.raises(InputError, match="both hold the same scores"):
        one.calibration_.merge(other.calibration_)


@pytest.mark.parametrize("limit", [0, -5, 2.5, "a", True])
def test_a_limit_of_scores_is_a_count(data: Data, limit):
    detector = CTM().fit(data.train, data.labels).calibrate(data.held_out)
    with pytest.raises(InputError, match=r"Calibration\.limit_to: limit=.* is not an integer of"):
        detector.calibration_.limit_to(limit)
    with pytest.raises(InputError, match=r"Calibration: limit=.* is not an integer of at least 1"):
        typica.Calibration(limit=limit)


def test_predicted_classes_may_be_whole_floats(data: Data):
    detector = CTM().fit(data.train, data.labels)
    predicted = np.arange(len(data.held_out)) % 2
    groups = {name: str(name) for name in range(4)}
    detector.calibrate(data.held_out, by_class=True, predicted=predicted, groups=groups)
    classes = np.arange(len(data.ood)) % 2
    as_floats = detector.p_values(data.ood, predicted=classes.astype(float))
    np.testing.assert_array_equal(as_floats, detector.p_values(data.ood, predicted=classes))
    assert (as_floats < 1).any()


def test_rows_of_no_calibrated_group_are_warned_of(data: Data):
    names = np.array([f"class {label}" for label in data.labels])
    detector = CTM().fit(data.train, data.labels)
    held = np.array([f"class {label}" for label in detector.classify(data.held_out)])
    detector.calibrate(data.held_out, by_class=True, groups={}, predicted=held)
    with pytest.warns(typica.CalibrationWarning, match=r"no row is in a calibrated group"):
        detector.judge(data.ood)  # whose classes are numbers
    assert set(held) <= set(names)


def test_a_pipeline_takes_a_bank_for_its_features(data: Data, tmp_path):
    bank = typica.write_bank(tmp_path / "held_out", data.held_out)
    pipeline = make_pipeline(StandardScaler(), CTM()).fit(data.train, data.labels)
    of_bank = typica.judge(typica.calibrate(pipeline, bank), bank)
    of_rows = typica.judge(typica.calibrate(pipeline, bank.features), bank.features)
    np.testing.assert_array_equal(of_bank.p_value, of_rows.p_value)
    np.testing.assert_array_equal(typica.p_values(pipeline, bank), of_rows.p_value)


def test_a_pipeline_is_explained_by_the_names_of_its_columns(data: Data):
    columns = [f"petal_{i}" for i in range(data.train.shape[1])]
    frames = [pd.DataFrame(part, columns=columns) for part in (data.train, data.held_out, data.ood)]
    train, held_out, ood = frames
    pipeline = make_pipeline(StandardScaler(), typica.ReAct(), CTM()).fit(train, data.labels)
    typica.calibrate(pipeline, held_out)
    for answer in typica.explain(pipeline, ood[:5]):
        assert answer.contributions
        assert all(str(part) == f"petal_{part.feature}" for part in answer.contributions)
    reduced = make_pipeline(typica.PCA(3), CTM()).fit(train, data.labels)
    (answer,) = typica.explain(reduced, ood[:1])
    assert all(str(part) == f"pca{part.feature}" for part in answer.contributions)
    # A step that names nothing, and rows without names, leave the numbers of the features.
    nameless = make_pipeline(FunctionTransformer(np.asarray), CTM()).fit(train, data.labels)
    plain = make_pipeline(StandardScaler(), CTM()).fit(data.train, data.labels)
    for pipeline, rows in ((nameless, ood), (plain, data.ood)):
        (answer,) = typica.explain(pipeline, rows[:1])
        assert answer.contributions and all(part.name is None for part in answer.contributions)


def test_a_search_says_where_its_detector_is(data: Data):
    search = GridSearchCV(CTM(), {"correct_only": [False]}, scoring=typica.ood_scorer(data.ood))
    search.fit(data.train, data.labels)
    with pytest.raises(
        InputError, match="GridSearchCV is not a detector; pass its best_estimator_"
    ):
        typica.calibrate(search, data.held_out)
    typica.calibrate(search.best_estimator_, data.held_out)


@pytest.mark.parametrize("xp", [np, torch], ids=["numpy", "torch"])
def test_a_score_of_minus_infinity_is_at_a_threshold_that_rejects_nothing(xp):
    """-inf less -inf is not NaN there: the row is accepted."""

    class Lowest(First):
        def _score(self, Z):
            return Z[:, 0] - 1 / Z[:, 1]

    with pytest.warns(CalibrationWarning):
        detector = Lowest().calibrate(rows([1.0, 2.0], 1.0))
    new = xp.asarray(np.array([[0.0, 0.0], [5.0, 1.0]]))
    with np.errstate(divide="ignore"):
        assert detector.decision_function(new).tolist() == [0.0, INF]
        assert detector.predict(new).tolist() == [1, 1]


def test_what_is_no_calibration_and_rows_to_compare_with_are_refused(data: Data):
    detector = CTM().fit(data.train, data.labels)
    with pytest.raises(InputError, match=r"CTM.set_calibration: got int; pass a Calibration\."):
        detector.set_calibration(3)
    with pytest.raises(InputError, match=r"CTM.explain: bank: row 0 of the features holds NaN"):
        detector.explain(data.test[:1], bank=np.full((1, 12), np.nan))
