"""Conformal detectors: p-values, decisions, classes, confidence, streams, merges and files."""

from __future__ import annotations

import math
import subprocess
import sys
import warnings
from fractions import Fraction

import numpy as np
import pytest
from helpers.data import Data, fitted, make_data
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import typica
from typica import CTM, CW, CalibrationWarning, InputError
from typica.binomial import calibration_size, guaranteed_rank
from typica.decide._conformal import ConformalDetector, fingerprint
from typica.detectors.base import Detector, Tags
from typica.groups import p_values, pool_rare
from typica.metrics import rate_interval
from typica.sketch import ScoreSet

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
    return ConformalDetector(First(), **options).calibrate(rows(scores))


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
    conformal = ConformalDetector(detector).calibrate(data.held_out)
    known, scores = detector.score_samples(data.held_out), detector.score_samples(data.test)
    wanted = [(1 + sum(known <= s)) / (len(known) + 1) for s in scores]
    np.testing.assert_array_equal(conformal.p_values(data.test), wanted)
    first, again, other = (
        conformal.p_values(data.test, randomised=True, seed=seed) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    judged = conformal.judge(data.test, alpha=0.1)
    np.testing.assert_array_equal(judged.scores, scores)
    np.testing.assert_array_equal(judged.p_values, wanted)
    np.testing.assert_array_equal(judged.typical, judged.p_values > 0.1)


# Decisions


@settings(deadline=None)
@given(st.lists(st.integers(-3, 9), min_size=1, max_size=60), st.integers(1, 1000))
def test_decisions_are_those_of_the_detectors_own_threshold(calibration, thousandths):
    """Row for row, with ties, in exact arithmetic, whether alpha is 1 - tpr or the decimal that is meant."""
    tpr = thousandths / 1000
    new = rows(np.linspace(-4, 10, 57))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        wanted = First().calibrate(rows(calibration), tpr=tpr).predict(new)
        conformal = calibrated(calibration)
        for alpha in (1 - tpr, Fraction(1000 - thousandths, 1000), f"{1000 - thousandths}/1000"):
            np.testing.assert_array_equal(conformal.predict(new, alpha=alpha), wanted)
    exact = Fraction(1000 - thousandths, 1000)
    n = len(calibration)
    rejected = [Fraction(1 + sum(c <= s for c in calibration), n + 1) <= exact for s in new[:, 0]]
    np.testing.assert_array_equal(wanted == -1, rejected)


@pytest.mark.parametrize(
    "precisions", [(np.float32, np.float32), (np.float64, np.float32), (np.float32, np.float64)]
)
def test_decisions_agree_across_precisions(data: Data, precisions):
    """Calibrated in one precision and asked in the other, on the very rows where a last bit decides."""
    first, second = precisions
    detector = CTM().fit(data.train, data.labels)
    held_out, new = (
        data.held_out[:99].astype(first),
        np.concatenate([data.held_out, data.test]).astype(second),
    )
    conformal = ConformalDetector(detector).calibrate(held_out)
    for percent in range(1, 100):
        tpr = percent / 100
        wanted = detector.calibrate(held_out, tpr=tpr).predict(new)
        np.testing.assert_array_equal(conformal.predict(new, alpha=1 - tpr), wanted)
        np.testing.assert_array_equal(
            conformal.p_values(new) <= (100 - percent) / 100, wanted == -1
        )


def test_every_detector(name: str):
    data = make_data()
    detector = fitted(name, data)
    conformal = ConformalDetector(detector).calibrate(data.held_out)
    wanted = detector.calibrate(data.held_out, tpr=0.9).predict(data.test)
    np.testing.assert_array_equal(conformal.predict(data.test, alpha=0.1), wanted)
    assert conformal.p_values(data.ood).mean() < conformal.p_values(data.test).mean()


def test_pipeline(data: Data):
    pipeline = make_pipeline(StandardScaler(with_mean=False), CTM()).fit(data.train, data.labels)
    conformal = ConformalDetector(pipeline, by_class=True).calibrate(data.held_out)
    typica.calibrate(pipeline, data.held_out, tpr=0.9)
    whole = ConformalDetector(pipeline).calibrate(data.held_out)
    np.testing.assert_array_equal(whole.predict(data.test, alpha=0.1), pipeline.predict(data.test))
    assert conformal.p_values(data.test).shape == (len(data.test),)


def test_torch_tensors(data: Data):
    torch = pytest.importorskip("torch")
    conformal = ConformalDetector(CTM().fit(data.train, data.labels)).calibrate(
        torch.tensor(data.held_out)
    )
    same = ConformalDetector(CTM().fit(data.train, data.labels)).calibrate(data.held_out)
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
    summary = conformal.summary(0.05, confidence=0.99)
    assert summary["groups"]["all"] == {"n": 1000, "k": 35, "threshold": 34.0, "error": 0}
    assert (conformal.predict(rows(scores), confidence=0.99) == -1).sum() == 34
    assert (conformal.predict(rows(scores)) == -1).sum() == 49
    few = calibrated(np.arange(89.0))
    with pytest.raises(
        InputError,
        match=r"predict: 89 calibration inputs are too few for alpha=0.05 with confidence=0.99; "
        r"pass at least 90, or a larger alpha",
    ):
        few.predict(rows([1.0]), confidence=0.99)
    assert calibrated(np.arange(90.0)).predict(rows([-1.0]), confidence=0.99).tolist() == [-1]


# Classes


def test_by_class_by_definition():
    rng = np.random.default_rng(0)
    names = np.array(["ant", "bee", "cat", "dog"])
    held_out, new = (
        rows(rng.integers(0, 50, n), rng.integers(0, high, n)) for n, high in ((400, 3), (200, 4))
    )
    groups = {"ant": "insect", "bee": "insect"}
    conformal = ConformalDetector(First(), by_class=True, groups=groups).calibrate(held_out)

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
    np.testing.assert_array_equal(conformal.predict(new, alpha=0.2) == -1, np.array(wanted) <= 0.2)
    np.testing.assert_array_equal(conformal.judge(new, alpha=0.2).typical, np.array(wanted) > 0.2)
    by_hand = ConformalDetector(First(), by_class=True, groups=groups).calibrate(
        rows(held_out[:, 0]), predicted=names[held_out[:, 1].astype(int)]
    )
    np.testing.assert_array_equal(
        by_hand.p_values(rows(new[:, 0]), predicted=names[new[:, 1].astype(int)]), wanted
    )
    assert sorted(conformal.summary(0.2)["groups"]) == ["cat", "insect"]
    randomised = conformal.p_values(new, randomised=True, seed=0)
    assert (randomised <= wanted).all() and (randomised < wanted).any()


def test_rare_classes_are_pooled_by_training_counts():
    data = make_data(n=240)
    labels = data.labels.copy()
    few = np.flatnonzero(labels >= 2)[6:]
    train, labels = np.delete(data.train, few, axis=0), np.delete(labels, few)
    detector = CTM().fit(train, labels)
    held_out = np.concatenate([data.held_out] * 3)
    conformal = ConformalDetector(detector, by_class=True).calibrate(held_out)
    assert conformal.calibration.taxonomy == {"2": "rare", "3": "rare"}
    assert set(conformal.calibration.sets) == {"0", "1", "rare"}
    stream = ConformalDetector(detector, by_class=True).partial_calibrate(held_out)
    assert set(stream.calibration.sets) == {"0", "1", "2", "3"}


def test_pool_rare():
    assert pool_rare([0, 1, 2], [50, 30, 20], n=100, smallest=25) == {2: "rare"}
    assert pool_rare(["a"], [1], n=10) == {"a": "rare"}
    assert pool_rare(["a"], [1], n=100) == {}
    with pytest.raises(
        InputError, match=r"pool_rare: 2 classes, counts \[0\. 0\.\]; pass one count a class"
    ):
        pool_rare(["a", "b"], [0, 0], n=10)
    with pytest.raises(InputError, match=r"pool_rare: 1 classes"):
        pool_rare(["a"], [1, 2], n=10)


# Streams, sketches and merges


def test_streamed_and_merged_calibration_equal_the_whole(data: Data):
    detector = CTM().fit(data.train, data.labels)
    for options in ({}, {"by_class": True, "groups": {0: "rare", 1: "rare"}}):
        whole = ConformalDetector(detector, **options).calibrate(data.held_out)
        stream = ConformalDetector(detector, **options)
        for batch in np.array_split(data.held_out, 7):
            stream.partial_calibrate(batch)
            stream.p_values(data.test)  # asking in between changes nothing
        parts = [ConformalDetector(CTM().fit(data.train, data.labels), **options) for _ in range(3)]
        for part, batch in zip(parts, np.array_split(data.held_out, 3), strict=True):
            part.detector.calibrate(batch)  # a threshold of its own makes no other detector
            part.calibrate(batch)
        merged = (
            ConformalDetector(detector, **options).merge(parts[0]).merge(parts[1]).merge(parts[2])
        )
        assert whole.n == stream.n == merged.n == len(data.held_out)
        for other in (stream, merged):
            np.testing.assert_array_equal(other.p_values(data.test), whole.p_values(data.test))
            np.testing.assert_array_equal(
                other.predict(data.test, 0.1), whole.predict(data.test, 0.1)
            )
    again = ConformalDetector(detector).calibrate(data.held_out).calibrate(data.held_out[:50])
    assert again.n == 50


def test_merge_refuses_what_does_not_belong_together(data: Data):
    one = ConformalDetector(CTM().fit(data.train, data.labels)).calibrate(data.held_out)
    other = ConformalDetector(CTM().fit(data.train[:100], data.labels[:100])).calibrate(
        data.held_out
    )
    with pytest.raises(
        InputError, match=r"merge: the two detectors are not equal; calibrate copies of one fitted"
    ):
        one.merge(other)
    assert one.n == len(data.held_out)
    with pytest.raises(
        InputError, match=r"merge: by_class, groups or max_scores differ; make both with the same"
    ):
        one.merge(ConformalDetector(one.detector, by_class=True).calibrate(data.held_out))
    with pytest.raises(InputError, match=r"merge: by_class, groups or max_scores differ"):
        one.merge(ConformalDetector(one.detector, max_scores=50).calibrate(data.held_out))
    with pytest.raises(
        InputError, match=r"merge: got CTM or itself; pass another ConformalDetector"
    ):
        one.merge(one.detector)
    with pytest.raises(InputError, match=r"merge: got ConformalDetector or itself"):
        one.merge(one)
    with pytest.raises(
        NotFittedError, match=r"there are no calibration scores; call calibrate first"
    ):
        one.merge(ConformalDetector(one.detector))


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


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.lists(tied | st.floats(-5, 5), max_size=80), min_size=1, max_size=8),
    st.integers(16, 40),
    st.integers(1, 8),
)
def test_sketch_never_counts_too_few_nor_more_than_its_error_too_many(batches, max_scores, parts):
    """Whatever the order, the batches and the merges."""
    sketches = [ScoreSet(max_scores) for _ in range(parts)]
    for i, batch in enumerate(batches):
        sketches[i % parts].add(batch)
    sketch = sketches[0]
    for other in sketches[1:]:
        sketch.merge(other)
    scores = [score for batch in batches for score in batch]
    asked = np.array([*scores, -INF, -0.3, 0.7, INF])
    below, at_most = (
        [sum(compare(s, a) for s in scores) for a in asked]
        for compare in (float.__lt__, float.__le__)
    )
    for wanted, found in (
        (below, sketch.count(asked, "left")),
        (at_most, sketch.count(asked, "right")),
    ):
        assert (found >= wanted).all() and (found - wanted <= sketch.error).all()
    assert sketch.n == len(scores) and len(sketch.ordered) <= max_scores
    for k in range(1, len(scores) + 1, 7):
        limit = sketch.threshold(k)
        assert limit <= sorted(scores)[k - 1]
        assert ((sketch.count(asked) < k) == (asked < limit)).all()


@pytest.mark.parametrize(
    ("order", "limit"),
    [
        ("random", 4.0),
        ("ascending", 20.0),
        ("descending", 4.0),
        ("inward", 20.0),
        ("outward", 12.0),
        ("sorted blocks", 4.0),
    ],
)
def test_sketch_error_is_small_in_every_order(order, limit):
    """In units of n / max_scores, as the documentation states; memory stays bounded."""
    n, max_scores = 40_000, 400
    scores = np.random.default_rng(0).permutation(n).astype(np.float64)
    signs = np.where(np.arange(n) % 2, 1.0, -1.0)
    scores = {
        "random": scores,
        "ascending": np.sort(scores),
        "descending": -np.sort(scores),
        "inward": signs * (n - np.arange(n)),
        "outward": signs * np.arange(n),
        "sorted blocks": np.sort(scores.reshape(-1, 500), axis=1).ravel(),
    }[order]
    sketch = ScoreSet(max_scores)
    for batch in np.array_split(scores, 130):
        sketch.add(batch)
        assert len(sketch._values) + sketch._waiting <= max_scores
    true = np.searchsorted(np.sort(scores), scores, side="right")
    excess = sketch.count(scores) - true
    assert excess.min() >= 0 and excess.max() <= sketch.error <= limit * n / max_scores
    assert sketch.count(np.array([scores.max()]))[0] == n


def test_sketch_makes_p_values_conservative():
    rng = np.random.default_rng(0)
    scores, new = rng.normal(size=20_000), rows(rng.normal(size=500))
    exact, sketch = calibrated(scores), calibrated(scores, max_scores=1000)
    error = sketch.calibration.sets["all"].error
    assert 0 < error <= 4 * 20_000 / 1000
    extra = sketch.p_values(new) - exact.p_values(new)
    assert (extra >= 0).all() and (extra <= error / 20_001 + 1e-12).all() and extra.max() > 0
    same = [conformal.p_values(new, randomised=True, seed=1) for conformal in (sketch, exact)]
    assert (same[0] >= same[1] - 1e-12).all()
    assert not ((sketch.predict(new, 0.1) == -1) & (exact.predict(new, 0.1) == 1)).any()
    np.testing.assert_array_equal(sketch.predict(new, 0.1) == -1, sketch.p_values(new) <= 0.1)
    with pytest.raises(
        InputError,
        match=r"discoveries: a sketch lacks what the guarantee needs; calibrate without max",
    ):
        sketch.discoveries(new)
    calibrated(scores[:900], max_scores=1000).discoveries(new)  # nothing has been lost yet


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
    by_class = ConformalDetector(First(), by_class=True).calibrate(rows(calibration))
    np.testing.assert_array_equal(by_class.discoveries(new), conformal.discoveries(new))
    with pytest.raises(
        InputError, match=r"discoveries: 'storey' needs one calibration set for all; use 'bh'"
    ):
        by_class.discoveries(new, method="storey")


@pytest.mark.parametrize("n", [1, 2, 10, 11, 12])
def test_storey_takes_a_lam_that_the_p_values_can_have(n):
    """lam is lowered to a multiple of 1 / (n + 1), and p-values equal to it count as large."""
    rng = np.random.default_rng(n)
    conformal = calibrated(np.arange(float(n)))
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
    conformal = calibrated(np.zeros(99))
    assert conformal.p_values(rows([0.0, -1.0, 1.0])).tolist() == [1.0, 0.01, 1.0]
    assert conformal.predict(rows([0.0, -1.0, 1.0])).tolist() == [1, -1, 1]
    assert not conformal.discoveries(rows(np.zeros(50))).any()


def test_one_calibration_input():
    conformal = calibrated([3.0])
    assert conformal.p_values(rows([2.0, 3.0])).tolist() == [0.5, 1.0]
    assert conformal.predict(rows([2.0, 3.0]), alpha=0.5).tolist() == [-1, 1]
    with pytest.warns(
        CalibrationWarning,
        match=r"predict: 1 calibration inputs are too few to reject anything at alpha=0.05; "
        r"pass at least 19, or a larger alpha",
    ) as caught:
        assert conformal.predict(rows([-1e9])).tolist() == [1]
    assert caught[0].filename == __file__
    assert conformal.predict(rows([-1e9]), alpha=0).tolist() == [1]


def test_too_small_a_group_is_named():
    held_out = rows(np.arange(31.0), np.repeat([0, 1], [30, 1]))
    conformal = ConformalDetector(First(), by_class=True).calibrate(held_out)
    with pytest.warns(
        CalibrationWarning, match=r"1 calibration inputs of group 'bee' are .* at least 19 a group"
    ):
        assert conformal.predict(rows([-1.0, -1.0], [0, 1])).tolist() == [-1, 1]
    with pytest.raises(
        InputError,
        match=r"summary: 1 calibration inputs of group 'bee' are too few for alpha=0.05 with",
    ):
        conformal.summary(confidence=0.9)


def test_infinite_scores_are_legal_and_nan_is_not():
    assert p_values([-INF, INF], [-INF, 0.0, INF]).tolist() == [0.5, 1.0]
    with pytest.raises(
        InputError, match=r"p_values: score 1 is NaN; repair the input or the detector"
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

    with pytest.raises(InputError, match=r"ConformalDetector.calibrate: score 0 is NaN"):
        ConformalDetector(Broken()).calibrate(rows([1.0]))


def test_bad_input(data: Data):
    with pytest.raises(
        InputError, match=r"ConformalDetector: StandardScaler is not a detector; pass a detector or"
    ):
        ConformalDetector(StandardScaler())
    with pytest.raises(InputError, match=r"groups without by_class; pass by_class=True as well"):
        ConformalDetector(First(), groups={})
    for bad in (5, 2.5, "many"):
        with pytest.raises(
            InputError, match=r"max_scores=.*; pass an integer of 16 or more, or None"
        ):
            ConformalDetector(First(), max_scores=bad)
    with pytest.raises(NotFittedError, match=r"CTM.score_samples: this CTM is not fitted yet"):
        ConformalDetector(CTM()).calibrate(data.held_out)
    unready = ConformalDetector(First())
    for method in (unready.p_values, unready.predict, unready.discoveries, unready.judge):
        with pytest.raises(
            NotFittedError,
            match=r"ConformalDetector: there are no calibration scores; call calibrate",
        ):
            method(rows([1.0]))
    conformal = calibrated(np.arange(99.0))
    with pytest.raises(InputError, match=r"0 sample\(s\)"):
        conformal.calibrate(np.empty((0, 2)))
    assert conformal.n == 99
    for alpha in (1, -0.1, np.nan, "lots"):
        with pytest.raises(
            InputError,
            match=r"predict: alpha=.* is not a share; pass a number at least 0 and below 1",
        ):
            conformal.predict(rows([1.0]), alpha=alpha)
    with pytest.raises(InputError, match=r"confidence=2 is not a share"):
        conformal.predict(rows([1.0]), confidence=2)
    with pytest.raises(
        InputError, match=r"p_values: predicted classes are for by_class=True; leave them out"
    ):
        conformal.p_values(rows([1.0]), predicted=["ant"])
    by_class = ConformalDetector(First(), by_class=True).calibrate(rows([1.0]))
    with pytest.raises(
        InputError, match=r"p_values: predicted has shape \(2,\) for 1 rows; pass one a row"
    ):
        by_class.p_values(rows([1.0]), predicted=["ant", "bee"])


def test_input_is_not_written_to(data: Data):
    held_out, test = data.held_out.copy(), data.test.copy()
    conformal = ConformalDetector(CTM().fit(data.train, data.labels), max_scores=20).calibrate(
        held_out
    )
    conformal.p_values(test)
    np.testing.assert_array_equal(held_out, data.held_out)
    np.testing.assert_array_equal(test, data.test)


# Files


@pytest.mark.parametrize(
    "options", [{}, {"by_class": True, "groups": {0: "$rare", 1: "$rare"}}, {"max_scores": 40}]
)
def test_saved_and_loaded(data: Data, tmp_path, options):
    conformal = ConformalDetector(CW(data.head), **options).calibrate(data.held_out)
    path = tmp_path / "conformal.safetensors"
    conformal.save(path)
    loaded = typica.load(path)
    np.testing.assert_array_equal(loaded.p_values(data.test), conformal.p_values(data.test))
    assert loaded.summary(0.1) == conformal.summary(0.1)
    loaded.partial_calibrate(data.test)
    conformal.partial_calibrate(data.test)
    np.testing.assert_array_equal(loaded.p_values(data.ood), conformal.p_values(data.ood))
    loaded.merge(ConformalDetector(CW(data.head), **options).calibrate(data.held_out))
    again = tmp_path / "again.safetensors"
    typica.load(path).save(again)
    assert again.read_bytes() == path.read_bytes()


def test_a_fresh_process_finds_the_classes(data: Data, tmp_path):
    path = tmp_path / "conformal.safetensors"
    ConformalDetector(CW(data.head), by_class=True).calibrate(data.held_out).save(path)
    code = f"import typica; print(typica.load({str(path)!r}).n)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{len(data.held_out)}\n"


def test_explain_tells_verdict_p_value_and_nearest_known_inputs(data):
    detector = typica.CTM().fit(data.train, data.labels)
    conformal = ConformalDetector(detector, alpha="0.1").calibrate(data.held_out)
    inputs = np.concatenate([data.test[:5], data.ood[:5]])
    answers = conformal.explain(inputs, bank=data.held_out)
    judged = conformal.judge(inputs)
    assert [answer.p_value for answer in answers] == judged.p_values.tolist()
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


def test_levels_of_the_constructor_are_stored_and_used(data, tmp_path):
    conformal = ConformalDetector(
        typica.CTM().fit(data.train, data.labels), alpha="0.2", confidence="0.9"
    )
    conformal.calibrate(data.held_out).save(tmp_path / "c.safetensors")
    loaded = typica.load(tmp_path / "c.safetensors")
    assert (loaded.alpha, loaded.confidence) == ("0.2", "0.9")
    wanted = conformal.predict(data.test, alpha=0.2, confidence=0.9)
    np.testing.assert_array_equal(loaded.predict(data.test), wanted)
    assert loaded.summary() == conformal.summary(alpha=0.2, confidence=0.9)
    assert (conformal.predict(data.test, alpha=0.2) != wanted).any()
    for name in ("alpha", "confidence"):
        with pytest.raises(InputError, match=rf"ConformalDetector: {name}='much' is not a share"):
            ConformalDetector(conformal.detector, **{name: "much"})
