"""The guarantees, tested as statements about probability.

Each test fails by chance at most once in a million runs of new random numbers: what it counts is
binomial with a known or bounded rate, and its limits are exact quantiles at MISTAKE divided by the
number of comparisons in the test. Seeds are fixed all the same. Where the rate is known exactly the
limits are two-sided, so that needless caution fails too. Two tests rest on more than that: delays
on a rate that was measured, real halves on six standard errors.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from typica.calibration import (
    Calibration,
    Levels,
    ScoreSample,
    guaranteed_rank,
    p_values,
)
from typica.decide import Monitor
from typica.decide._online_ranks import OnlineRanks
from typica.detectors import LayerEnsemble, Mahalanobis
from typica.detectors.base import Detector
from typica.fdr import benjamini_hochberg
from typica.groups import judge_groups
from typica.keys import row_keys
from typica.metrics import rate_interval
from typica.tags import Tags

MISTAKE = 1e-6


class Column(Detector):
    """A detector whose input is its score."""

    tags = Tags(needs_fit=False)

    def _score(self, Z):
        return Z[:, 0]


def assert_rate(hits, n, rate, comparisons, least=None):
    """Check that `rate` (and at least `least`) makes a count of n independent events plausible."""
    tail = MISTAKE / comparisons / 2
    low = stats.binom.ppf(tail, n, rate if least is None else least)
    high = stats.binom.isf(tail, n, rate)
    assert low <= hits <= high, (
        f"{hits} of {n}, a rate of {hits / n:.4f} where {float(rate):.4f} is stated"
    )


# One input


@pytest.mark.parametrize("n", [1, 19, 100, 1000])
def test_coverage(n):
    """A new input is rejected with probability floor((n + 1) alpha) / (n + 1).

    The probability is over calibration draws.
    """
    rng = np.random.default_rng(n)
    draws = 5000
    alphas = (0.5, 0.1, 0.05, 0.01)
    p = np.array([p_values(rng.normal(size=1), rng.normal(size=n))[0] for _ in range(draws)])
    for alpha in alphas:
        assert_rate((p <= alpha).sum(), draws, guaranteed_rank(n, alpha) / (n + 1), len(alphas))


@pytest.mark.parametrize("values", [1, 2, 5])
def test_coverage_with_ties(values):
    """With few distinct scores plain p-values are cautious; randomised ones are exact."""
    rng = np.random.default_rng(values)
    draws, n, alphas = 4000, 30, (0.5, 0.1, 0.03)
    plain, randomised = [], []
    for _ in range(draws):
        known, new = rng.integers(0, values, n), rng.integers(0, values, 1)
        plain.append(p_values(new, known)[0])
        randomised.append(p_values(new, known, rng)[0])
    for alpha in alphas:
        assert_rate((np.array(plain) <= alpha).sum(), draws, alpha, 2 * len(alphas), least=0)
        assert_rate((np.array(randomised) <= alpha).sum(), draws, alpha, 2 * len(alphas))


@pytest.mark.parametrize("values", [None, 3])
@pytest.mark.parametrize("limit", [19, 99])
def test_coverage_of_a_sample(values, limit):
    """A sample of 1,000 scores, with ties or without, is as good as that many scores: exactly."""
    rng = np.random.default_rng(limit)
    draws, n, alphas = 3000, 1000, (0.5, 0.1, 0.05)
    plain, randomised = [], []
    for draw in range(draws):
        scores = rng.normal(size=n + 1) if values is None else rng.integers(0, values, n + 1) * 1.0
        sample = ScoreSample(limit).add(scores[:n], row_keys(f"draw {draw}", 0, n))
        plain.append(sample.p_values(scores[n:])[0])
        randomised.append(sample.p_values(scores[n:], rng)[0])
    for alpha in alphas:
        rate = guaranteed_rank(limit, alpha) / (limit + 1)
        least = rate if values is None else 0
        comparisons = 2 * len(alphas)
        assert_rate((np.array(plain) <= alpha).sum(), draws, rate, comparisons, least=least)
        assert_rate((np.array(randomised) <= alpha).sum(), draws, alpha, comparisons)


def test_coverage_of_a_sample_of_duplicated_rows():
    """Rows that occur many times over do not come and go together.

    A sample by keys of scores would fail.
    """
    rng = np.random.default_rng(0)
    draws, alpha, kinds = 3000, 0.1, 30
    rejected = 0
    for draw in range(draws):
        values = rng.normal(size=kinds)  # what this draw's world consists of
        scores = values[rng.integers(0, kinds, 600)]
        sample = ScoreSample(199).add(scores, row_keys(f"draw {draw}", 0, len(scores)))
        new = values[rng.integers(0, kinds, 1)]
        rejected += sample.p_values(new, rng)[0] <= alpha
    assert_rate(rejected, draws, alpha, 1)


def test_false_discovery_rate_of_a_sample():
    rng = np.random.default_rng(0)
    draws, fdr = 1000, 0.2
    wrong = 0
    for draw in range(draws):
        made = Calibration(limit=50).add(rng.normal(size=400), source=f"draw {draw}")
        new = rng.normal(size=20)
        new[:8] -= 3
        found = made.discoveries(new, fdr=fdr)
        wrong += rng.random() < found[8:].sum() / max(1, found.sum())
    assert_rate(wrong, draws, fdr, 1, least=0)


def test_false_alarms_from_a_sample():
    """The monitor takes a sample as it takes all scores."""
    rng = np.random.default_rng(0)
    streams, alpha = 150, 0.1
    alarms = 0
    for stream in range(streams):
        made = Calibration(limit=200).add(rng.normal(size=2000), source=f"stream {stream}")
        monitor = Monitor(made, alpha=alpha, cells=2**10, seed=stream)
        alarms += monitor.update(rng.normal(size=5000))
    assert_rate(alarms, streams, alpha, 1, least=0)


def test_false_alarms_from_samples_of_classes():
    """A common class keeps a smaller share of its scores than a rare one.

    The monitor needs their mix.
    """
    rng = np.random.default_rng(0)
    streams, alpha = 100, 0.1
    alarms = 0

    def drawn(n):
        rare = rng.random(n) < 0.1
        return rng.normal(size=n) - 2 * rare, rare.astype(int)

    for stream in range(streams):
        made = Calibration(by_class=True, limit=200)
        made.add(*drawn(4000), source=f"stream {stream}")
        monitor = Monitor(made, alpha=alpha, cells=2**10, seed=stream)
        alarms += monitor.update(*drawn(3000))
    assert_rate(alarms, streams, alpha, 1, least=0)


def test_coverage_within_classes():
    """Each predicted class keeps its rate, rare ones as a pool.

    Without classes the hard ones do not.
    """
    rng = np.random.default_rng(0)
    shares = np.array([0.5, 0.44, 0.02, 0.02, 0.02])
    levels = np.array([0.0, 1.0, -2.0, -2.5, -3.0])  # rare classes have the low scores
    alpha, draws, n = 0.1, 1500, 300
    groups = {2: "rare", 3: "rare", 4: "rare"}
    rejected, rejected_anyway = np.zeros(3, dtype=int), np.zeros(3, dtype=int)
    for _ in range(draws):
        classes = rng.choice(5, size=n, p=shares)
        scores = levels[classes] + rng.normal(size=n)
        by_class, together = Calibration(by_class=True, groups=groups), Calibration()
        by_class.add(scores, classes)
        together.add(scores, None)
        new = np.array(
            [0, 1, rng.integers(2, 5)]
        )  # of the pool a random member: that is what the pool promises
        fresh = levels[new] + rng.normal(size=3)
        rejected += by_class.p_values(fresh, new) <= alpha
        rejected_anyway += together.p_values(fresh, None) <= alpha
    for hits in rejected:
        assert_rate(hits, draws, alpha, 3, least=0.03)
    assert rejected_anyway[2] > 0.8 * draws  # what classes are for


def test_confidence():
    """With uniform scores the false-alarm rate of a threshold is the threshold.

    How often is it at most alpha?
    """
    rng = np.random.default_rng(0)
    draws = 2000
    cases = [(100, 0.05, 0.9), (500, 0.05, 0.99), (1000, 0.01, 0.9), (90, 0.05, 0.99)]
    for n, alpha, confidence in cases:
        k = guaranteed_rank(n, alpha, confidence)
        exact = stats.binom.sf(k - 1, n, alpha)
        assert exact >= confidence
        good = 0
        for _ in range(draws):
            known = Calibration(Levels.of(alpha, confidence=confidence)).add(rng.random(n))
            good += known.threshold <= alpha
        assert_rate(good, draws, exact, len(cases))


# Batches


@pytest.mark.parametrize("method", ["bh", "storey"])
@pytest.mark.parametrize(
    ("n", "m", "strange"), [(9, 5, 0), (10, 20, 0), (50, 20, 10), (200, 50, 40), (39, 40, 0)]
)
def test_false_discovery_rate(method, n, m, strange):
    """The false discovery proportion as a coin of rate FDR.

    It is rounded up or down at random, by its own size.
    """
    rng = np.random.default_rng(n * m + strange)
    draws, fdr = 1000, 0.2
    detector = Column()
    wrong = found = 0
    for draw in range(draws):
        ties = draw % 2  # scores of one decimal in every second draw
        known, new = rng.normal(size=n), rng.normal(size=m)
        new[:strange] -= 3
        known, new = (np.round(s, 1) if ties else s for s in (known, new))
        discoveries = detector.calibrate(known[:, None], alpha=0.5).discoveries(
            new[:, None], fdr=fdr, method=method
        )
        share = discoveries[strange:].sum() / max(1, discoveries.sum())
        wrong += rng.random() < share
        found += discoveries[:strange].sum()
    assert_rate(wrong, draws, fdr, 1, least=0)
    if strange and n >= 200:
        assert found > 0.5 * draws * strange


@pytest.mark.parametrize("combine", ["simes", "mean"])
def test_detectors_that_rank_scores_keep_their_guarantees(combine):
    """Ranks must not come from the rows that calibrate: Simes' would name four times too many."""
    rng = np.random.default_rng(0)
    draws, members, alpha, fdr = 400, 12, 0.05, 0.1
    layers = {str(i): rng.normal(size=(500, 1)) for i in range(members)}
    detector = LayerEnsemble(Mahalanobis(), combine=combine).fit(layers)
    rejected = wrong = 0
    for _ in range(draws):
        detector.calibrate(rng.normal(size=(399, members)))
        rows = rng.normal(size=(20, members))  # 20 / fdr = 200, so that one least p-value is named
        rejected += detector.p_values(rows[:1])[0] <= alpha
        wrong += detector.discoveries(rows, fdr=fdr).any()
    n = detector.calibration_.n
    assert_rate(rejected, draws, guaranteed_rank(n, alpha) / (n + 1), 2)
    assert_rate(wrong, draws, fdr, 2, least=0)


def test_benjamini_hochberg_is_not_needlessly_cautious():
    """Where all is in-distribution and p-values are independent the rate is exactly fdr."""
    rng = np.random.default_rng(0)
    draws, fdr = 4000, 0.2
    wrong = sum(benjamini_hochberg(rng.random(20), fdr).any() for _ in range(draws))
    assert_rate(wrong, draws, fdr, 1)


# Groups


def drawn_groups(rng, groups, strange, n):
    """p-values of groups of 1 to 6 rows; the first `strange` have one or more strange rows."""
    sizes = rng.integers(1, 7, groups)
    ids = np.repeat(np.arange(groups), sizes)
    new = rng.normal(size=len(ids))
    odd = (ids < strange) & (rng.random(len(ids)) < 0.5)
    odd[np.cumsum(sizes)[:strange] - 1] = True
    new[odd] -= 4
    return p_values(new, rng.normal(size=n)), ids, odd


@pytest.mark.parametrize("size", [1, 3, 20])
@pytest.mark.parametrize("n", [39, 500])
def test_a_group_of_known_rows_is_rejected_at_most_as_often_as_stated(n, size):
    """Simes' p-value of rows that share one calibration set, over calibration draws."""
    rng = np.random.default_rng(n + size)
    draws, alphas = 3000, (0.2, 0.1, 0.05)
    p = []
    for _ in range(draws):
        rows = p_values(rng.normal(size=size), rng.normal(size=n))
        p.append(judge_groups(rows, rows, np.zeros(size, dtype=int), alpha=0.05).groups.p_value[0])
    for alpha in alphas:
        least = guaranteed_rank(n, alpha) / (n + 1) if size == 1 else 0
        assert_rate((np.array(p) <= alpha).sum(), draws, alpha, len(alphas), least=least)


@pytest.mark.parametrize("strange", [0, 2, 8])
def test_false_discovery_rates_of_groups_and_of_rows_in_those_named(strange):
    rng = np.random.default_rng(strange)
    draws, groups, fdr = 1000, 12, 0.2
    wrong_groups = wrong_rows = named = 0
    for _ in range(draws):
        p, ids, odd = drawn_groups(rng, groups, strange, n=400)
        found = judge_groups(p, p, ids, fdr=fdr)
        rejected = ~found.groups.typical
        wrong_groups += rng.random() < rejected[strange:].sum() / max(1, rejected.sum())
        shares = []
        for group in np.flatnonzero(rejected):
            rows = ~found.typical & (ids == group)
            shares.append((rows & ~odd).sum() / rows.sum())
        wrong_rows += rng.random() < (np.mean(shares) if shares else 0)
        named += rejected[:strange].sum()
    assert_rate(wrong_groups, draws, fdr, 2, least=0)
    assert_rate(wrong_rows, draws, fdr, 2, least=0)
    assert named >= 0.5 * draws * strange


@pytest.mark.parametrize("alike", [0.0, 0.9, 1.0])
def test_images_whose_boxes_depend_on_each_other_hold_with_images_to_compare_with(alike):
    """p-values of groups ranked among those of held-out groups, whatever the dependence within."""
    rng = np.random.default_rng(int(10 * alike))
    draws, images, alphas = 1500, 60, (0.2, 0.1, 0.05)

    def boxes(count):
        sizes = rng.integers(1, 9, count)
        ids = np.repeat(np.arange(count), sizes)
        common = rng.normal(size=count)[ids]  # the light, the camera, the place
        return alike * common + np.sqrt(1 - alike**2) * rng.normal(size=len(ids)), ids

    p = []
    for _ in range(draws):
        known = boxes(images)[0]
        found = []
        for rows, ids in (boxes(images), boxes(1)):
            of_rows = p_values(rows, known)
            found.append(judge_groups(of_rows, rows, ids, alpha=0.05).groups.p_value)
        p.append(p_values(found[1], found[0])[0])
    for alpha in alphas:
        assert_rate((np.array(p) <= alpha).sum(), draws, alpha, len(alphas), least=0)


# Streams


@pytest.mark.parametrize(("n", "cells"), [(1, 1000), (5, 3), (5, 40), (20, 1)])
@pytest.mark.parametrize("values", [None, 4])
def test_online_p_values_are_independent_and_uniform(n, cells, values):
    """Over streams with few calibration scores, with ties and cells: one and all together."""
    rng = np.random.default_rng(n + cells)
    streams, steps = 1200, 60
    p = np.empty((streams, steps))
    for row in p:
        scores = (
            rng.normal(size=n + steps) if values is None else rng.integers(0, values, n + steps)
        )
        row[:] = OnlineRanks(scores[:n], cells, rng).p_values(scores[n:])
    events = [p[:, 0] <= 0.2, p[:, -1] <= 0.2, (p[:, :-1] <= 0.3).any(axis=1) & (p[:, -1] <= 0.3)]
    rates = [0.2, 0.2, 0.3 * (1 - 0.7 ** (steps - 1))]
    # Dependence makes streams with far too many small p-values, or far too few, common.
    many = (p <= 0.5).sum(axis=1)
    low, high = stats.binom.ppf([0.05, 0.95], steps, 0.5)
    events.append((many < low) | (many > high))
    rates.append(stats.binom.cdf(low - 1, steps, 0.5) + stats.binom.sf(high, steps, 0.5))
    for event, rate in zip(events, rates, strict=True):
        assert_rate(event.sum(), streams, rate, len(events) + 1)
    # Dvoretzky, Kiefer, Wolfowitz and Massart bound the distance of an empirical distribution from
    # the true one.
    ordered = np.sort(p.ravel())
    ends = np.arange(len(ordered) + 1) / len(ordered)
    distance = max(np.abs(ordered - ends[1:]).max(), np.abs(ordered - ends[:-1]).max())
    assert distance <= math.sqrt(math.log(2 * (len(events) + 1) / MISTAKE) / (2 * len(ordered)))


def test_a_fixed_reference_would_not_do():
    """What the test above is able to see: p-values against calibration scores that do not grow."""
    rng = np.random.default_rng(0)
    streams, steps = 1200, 60
    many = np.array(
        [
            (p_values(rng.normal(size=steps), rng.normal(size=20), rng) <= 0.5).sum()
            for _ in range(streams)
        ]
    )
    low, high = stats.binom.ppf([0.05, 0.95], steps, 0.5)
    rate = stats.binom.cdf(low - 1, steps, 0.5) + stats.binom.sf(high, steps, 0.5)
    with pytest.raises(AssertionError, match=r"is stated"):
        assert_rate(((many < low) | (many > high)).sum(), streams, rate, 5)


def test_false_alarms_over_many_streams():
    """Of exchangeable streams of 10,000 inputs at most alpha raise an alarm.

    There are 200 calibration scores.
    """
    rng = np.random.default_rng(0)
    streams, alpha = 250, 0.1
    alarms = 0
    for stream in range(streams):
        monitor = Monitor(rng.normal(size=200), alpha=alpha, cells=2**10, seed=stream)
        alarms += monitor.update(rng.normal(size=10_000))
    assert_rate(alarms, streams, alpha, 1, least=0)


def test_false_alarms_over_a_million_inputs():
    """The probability that the wealth ever reaches w is at most 1 / w.

    It never reaches 2 / MISTAKE on two streams.
    """
    for seed, n in ((1, 1000), (2, 20)):
        rng = np.random.default_rng(seed)
        monitor = Monitor(rng.normal(size=n), seed=seed)
        for _ in range(1000):
            monitor.update(rng.normal(size=1000))
        assert monitor.inputs == 1_000_000 and monitor.largest_wealth < 2 / MISTAKE


@pytest.mark.parametrize(
    ("share", "shift", "within"),
    [(1.0, -3.0, 30), (1.0, -1.0, 150), (1.0, 1.0, 150), (0.1, -5.0, 400), (1.0, -0.5, 500)],
)
def test_delay(share, shift, within):
    """How soon a change after 3,000 inputs is noticed.

    No theorem says; 398 or 399 of 400 streams were in time.
    """
    rng = np.random.default_rng(0)
    streams = 60
    noticed = 0
    for seed in range(streams):
        monitor = Monitor(rng.normal(size=1000), cells=2**10, seed=seed)
        monitor.update(rng.normal(size=3000))
        early = monitor.alarm
        moved = rng.random(within) < share
        noticed += monitor.update(rng.normal(size=within) + shift * moved) and not early
    assert_rate(noticed, streams, 1.0, 1, least=0.97)


def test_rate_intervals_cover():
    rng = np.random.default_rng(0)
    draws, n = 4000, 200
    for rate in (0.01, 0.05, 0.5):
        hits = rng.binomial(n, rate, size=draws)
        ends = [rate_interval(int(h), n) for h in hits]
        covered = sum(low <= rate <= high for low, high in ends)
        assert_rate(covered, draws, 1.0, 3, least=0.95)


# Real features


@pytest.mark.real
def test_real_halves(real):
    """Halves of the CIFAR-10 test set drawn 200 times.

    The other half keeps its rate, and OOD sets are rejected.
    """
    from typica import CTM

    detector = CTM().fit(real["train.features"], real["train.labels"])
    scores = detector.score_samples(real["test.features"])
    rng = np.random.default_rng(0)
    splits, half = 200, len(scores) // 2
    for alpha, power in ((0.01, 0.3), (0.05, 0.6), (0.1, 0.8)):
        rates = []
        for _ in range(splits):
            order = rng.permutation(len(scores))
            threshold = Calibration(Levels.of(alpha)).add(scores[order[:half]]).threshold
            rates.append((scores[order[half:]] < threshold).mean())
        # Given the k-th smallest of one half, the count in the other is negative hypergeometric.
        k = guaranteed_rank(half, alpha)
        mean = k / (half + 1)
        variance = k * (half + 1 - k) * (2 * half + 1) / ((half + 1) ** 2 * (half + 2) * half)
        assert (
            abs(np.mean(rates) - mean) <= 6 * math.sqrt(variance / splits) + 1e-4
        )  # equal scores cost a little
        ood = detector.score_samples(real["ood.svhn.features"])
        assert (ood < threshold).mean() > power
