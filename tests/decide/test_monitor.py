"""The monitor: ranks, bets, alarms, rates, and a state that goes on exactly."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.data import Data
from helpers.fuzz import read_detector, write_detector
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import typica
from typica import CTM, InputError
from typica.decide import Monitor, read_scores
from typica.decide._martingale import BETS, BINS, BLOCK, PATIENCE, RICH, Wealth, bet_table
from typica.decide._online_ranks import OnlineRanks, earlier
from typica.errors import FormatError

GOLDEN = Path(__file__).parents[1] / "golden"
few_values = st.lists(
    st.integers(0, 6).map(float) | st.sampled_from([-math.inf, math.inf]), max_size=40
)


def normal(n, seed=0, shift=0.0):
    return np.random.default_rng(seed).normal(size=n) + shift


def online_p_values(calibration, scores, uniform):
    """(#{<} + U (1 + #{=})) / (n + t), score by score."""
    seen, p = list(calibration), []
    for score, u in zip(scores, uniform, strict=True):
        below, equal = sum(s < score for s in seen), sum(s == score for s in seen)
        p.append((below + u * (1 + equal)) / (len(seen) + 1))
        seen.append(score)
    return np.array(p)


# Ranks


@given(st.lists(st.integers(0, 9), min_size=1, max_size=200))
def test_earlier_by_definition(keys):
    for array in (np.array(keys, dtype=np.int16), np.array(keys, dtype=np.float64)):
        smaller, equal = earlier(array)
        assert smaller.tolist() == [sum(k < key for k in keys[:i]) for i, key in enumerate(keys)]
        assert equal.tolist() == [sum(k == key for k in keys[:i]) for i, key in enumerate(keys)]


def test_earlier_of_a_whole_chunk():
    keys = np.random.default_rng(0).integers(0, 300, 1024)
    smaller, equal = earlier(keys)
    assert smaller.tolist() == [int((keys[:i] < key).sum()) for i, key in enumerate(keys)]
    assert equal.tolist() == [int((keys[:i] == key).sum()) for i, key in enumerate(keys)]


@given(few_values, few_values, st.integers(1, 7))
def test_online_p_values_by_definition(calibration, scores, pieces):
    """While all scores are kept, whatever the batches."""
    ranks = OnlineRanks(np.array(calibration), cells=1000, seed=3)
    rng = np.random.default_rng(3)
    rng.permutation(len(calibration))
    wanted = online_p_values(calibration, scores, 1 - rng.random(len(scores)))
    found = np.concatenate(
        [ranks.p_values(part) for part in np.array_split(np.array(scores), pieces)]
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    assert ranks.n == len(calibration) + len(scores)


@given(few_values, few_values, st.integers(1, 30), st.integers(1, 7))
def test_online_p_values_in_cells_by_definition(calibration, scores, cells, pieces):
    """After `cells` scores, later ones compare by where they lie among those that were kept."""
    ranks = OnlineRanks(np.array(calibration), cells=cells, seed=3)
    rng = np.random.default_rng(3)
    arrived = [*rng.permutation(np.array(calibration)).tolist(), *scores]
    uniform = 1 - rng.random(len(scores))
    kept = arrived[:cells]

    def cell(score):
        return 2 * len({k for k in kept if k < score}) + (score in kept)

    wanted = []
    for i, score in enumerate(scores):
        at = len(calibration) + i
        if at < cells:
            wanted.append(online_p_values(arrived[:at], [score], [uniform[i]])[0])
        else:
            wanted.append(
                online_p_values([cell(s) for s in arrived[:at]], [cell(score)], [uniform[i]])[0]
            )
    found = np.concatenate(
        [ranks.p_values(part) for part in np.array_split(np.array(scores), pieces)]
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    assert len(ranks._values) <= cells


def test_online_ranks_keep_bounded_memory():
    ranks = OnlineRanks(normal(50), cells=64)
    ranks.p_values(normal(10_000, seed=1))
    assert len(ranks._values) == 64 and ranks._counts.sum() == ranks.n == 10_050
    with pytest.raises(InputError, match=r"cells=0 is not an integer of at least 1; pass cells>=1"):
        OnlineRanks(normal(5), cells=0)


# Bets


def test_bets_are_densities_that_cannot_ruin():
    table, logarithms = bet_table()
    assert table.shape == (len(BETS), BINS)
    np.testing.assert_allclose(table.mean(axis=1), 1, rtol=1e-13)
    assert table.min() >= 0.5 and 0.5**BLOCK > 0
    np.testing.assert_allclose(np.exp(logarithms), table)
    for row, (share, a, b) in zip(table, BETS, strict=True):
        middle = slice(BINS // 4, -BINS // 4)
        density = 1 - share + share * stats.beta.pdf((np.arange(BINS) + 0.5) / BINS, a, b)
        np.testing.assert_allclose(row[middle], density[middle], rtol=1e-4)


@pytest.mark.parametrize("sizes", [[1] * 300, [700], [512, 512, 3], [1024, 1, 76]])
def test_wealth_by_definition(sizes):
    rng = np.random.default_rng(0)
    p = 1 - rng.random(sum(sizes))
    p[-30:] **= 4
    p[0] = 1.0
    table, _ = bet_table()
    stakes, wanted, products = np.zeros(len(BETS)), [], []
    for t, x in enumerate(p, start=1):
        factor = table[:, min(int(x * BINS), BINS - 1)]
        stakes = (stakes + PATIENCE / ((t - 1 + PATIENCE) * (t + PATIENCE)) / len(BETS)) * factor
        products.append(np.log(factor))
        wanted.append(PATIENCE / (t + PATIENCE) + stakes.sum())
    wealth = Wealth()
    found = np.concatenate([wealth.bet(part) for part in np.split(p, np.cumsum(sizes)[:-1])])
    np.testing.assert_allclose(found, wanted, rtol=1e-10)
    assert wealth.value == pytest.approx(wanted[-1]) and wealth.steps == len(p)
    # The best beginning in hindsight: the step and bet from which the product to the end is
    # largest.
    from_here = np.cumsum(np.array(products)[::-1], axis=0)[::-1]
    assert wealth.change_point == np.unravel_index(np.argmax(from_here), from_here.shape)[0]
    assert wealth.bet(np.empty(0)).shape == (0,)


def test_endless_wealth_stays_finite():
    wealth = Wealth()
    for p in (1e-6, 1.0, 0.5, 0.04, 1e-6):
        for _ in range(3):
            path = wealth.bet(np.full(1024, p))
            assert (path > 0).all() and (path <= RICH).all()  # and not NaN
    assert wealth.value == RICH
    wealth.bet(1 - np.random.default_rng(0).random(20_000))
    assert 0 < wealth.value < math.inf


# Alarms


def test_alarm_change_point_and_reset():
    monitor = Monitor(normal(2000), alpha=0.01)
    assert monitor.update(normal(5000, seed=1)) is False
    assert monitor.alarm_at is None and monitor.changed_at is None and monitor.largest_wealth < 100
    assert monitor.update(normal(1000, seed=2, shift=-3.0)) is True
    assert 5000 < monitor.alarm_at < 5030 and abs(monitor.changed_at - 5000) <= 20
    alarm = (monitor.alarm_at, monitor.changed_at)
    assert monitor.update(normal(30_000, seed=3)) is True  # it stays raised, and remembers when
    assert (monitor.alarm_at, monitor.changed_at) == alarm and monitor.largest_wealth >= 100
    monitor.reset()
    assert not monitor.alarm and monitor.inputs == 0 and monitor.wealth == 1 and monitor.rate.n == 0
    assert monitor.update(normal(3000, seed=4)) is False


def test_alarm_is_where_the_wealth_first_reaches_the_limit():
    stream = np.concatenate([normal(300, seed=1), normal(200, seed=2, shift=-2.0)])
    whole, single = Monitor(normal(500)), Monitor(normal(500))
    whole.update(stream)
    path = []
    for score in stream:
        single.update(score)
        path.append(single.wealth)
    assert whole.alarm_at == single.alarm_at == int(np.argmax(np.array(path) >= 100))
    assert whole.changed_at == single.changed_at
    assert whole.wealth == pytest.approx(single.wealth, rel=1e-9)
    assert whole.largest_wealth == pytest.approx(single.largest_wealth, rel=1e-9)
    assert whole.to_dict()["rejected"] == single.to_dict()["rejected"]


@pytest.mark.parametrize(
    "changed",
    [
        normal(4000, 5, 0.6),
        0.3 * normal(4000, 5),
        np.zeros(4000),
        np.where(np.arange(4000) % 10, normal(4000, 5), -9.0),
    ],
    ids=["up", "narrow", "stuck", "one in ten"],
)
def test_any_change_is_noticed(changed):
    monitor = Monitor(normal(1000))
    assert not monitor.update(normal(2000, seed=1))
    assert monitor.update(changed)


def test_adversarial_streams():
    with pytest.warns(
        typica.CalibrationWarning, match=r"1 calibration inputs are too few to reject"
    ):
        monitor = Monitor([0.0])
    assert not monitor.update(np.zeros(3000)) and not monitor.update(
        []
    )  # constant is exchangeable with constant
    assert monitor.inputs == 3000
    with pytest.warns(typica.CalibrationWarning, match="1 of 52 calibration scores are -inf"):
        infinite = Monitor(np.r_[normal(50), math.inf, -math.inf])
    assert not infinite.update([math.inf, -math.inf, 0.0])
    with pytest.raises(
        InputError, match=r"Monitor.update: score 2 is NaN; fix the input or the detector"
    ):
        infinite.update([1.0, 2.0, np.nan])
    assert infinite.inputs == 3


# Detectors, classes and rates


def test_detectors_and_rates(data: Data):
    detector = CTM().fit(data.train, data.labels)
    copied = CTM().fit(data.train, data.labels)
    conformal = CTM().fit(data.train, data.labels).calibrate(data.held_out)
    for monitor in (Monitor(conformal), Monitor(copied, held_out=data.held_out)):
        monitor.observe(data.test)
        assert monitor.update(detector.score_samples(data.ood)) and monitor.inputs == len(
            data.test
        ) + len(data.ood)
        rejected = int((conformal.predict(np.concatenate([data.test, data.ood])) == -1).sum())
        wanted = stats.binomtest(rejected, 240).proportion_ci(0.95, method="exact")
        assert monitor.rate[:3] == (240, rejected, rejected / 240)
        assert monitor.rate[3:] == pytest.approx((wanted.low, wanted.high))
        assert monitor.rates == {}
    assert not hasattr(copied, "calibration_")


def test_rates_are_over_the_window_and_by_class(data: Data):
    detector = CTM().fit(data.train, data.labels)
    conformal = detector.calibrate(data.held_out, by_class=True, groups={})
    monitor = Monitor(conformal, window=50, reject_alpha=0.2)
    monitor.observe(data.test)
    last = data.test[-50:]
    classes, rejected = detector.classify(last), ~conformal.judge(last, alpha=0.2).typical
    assert monitor.rate[:2] == (50, rejected.sum())
    wanted = {
        str(c): (int((classes == c).sum()), int(rejected[classes == c].sum()))
        for c in np.unique(classes)
    }
    assert {name: rate[:2] for name, rate in monitor.rates.items()} == wanted
    with pytest.raises(
        InputError, match=r"Monitor.update: calibrated by class; pass the predicted class of each"
    ):
        monitor.update([0.5])
    plain = Monitor(detector, held_out=data.held_out)
    plain.observe(last, predicted=np.where(classes == 0, "zero", "more"))
    assert {name: rate.n for name, rate in plain.rates.items()} == {
        "zero": (classes == 0).sum(),
        "more": (classes != 0).sum(),
    }


def test_report_and_prometheus():
    monitor = Monitor(np.arange(99.0), window=4)
    monitor.update([-1.0, 50.0, 50.0, 50.0], predicted=['a"b\\c\nd', "x", "x", "x"])
    report = monitor.to_dict()
    assert json.loads(json.dumps(report, allow_nan=False)) == report
    assert (
        report["inputs"] == 4 and report["alarm"] is False and report["rejected"]["rejected"] == 1
    )
    text = monitor.prometheus()
    assert (
        text.endswith("\n")
        and "typica_monitor_inputs_total 4\n" in text
        and "typica_monitor_alarm 0\n" in text
    )
    assert "typica_monitor_rejected_rate 0.25\n" in text
    assert 'typica_monitor_rejected_rate{class="a\\"b\\\\c\\nd"} 1.0\n' in text
    assert 'typica_monitor_rejected_n{class="x"} 3\n' in text
    names = re.findall(r"^# TYPE (\S+) (counter|gauge)$", text, flags=re.MULTILINE)
    assert len(names) == len({name for name, _ in names}) == 8
    sample = re.compile(r'[a-z_]+(\{class="([^"\\\n]|\\.)*"\})? [-+0-9.e]+')
    assert all(line.startswith("# ") or sample.fullmatch(line) for line in text.splitlines())
    assert monitor.prometheus(prefix="mine").startswith("# HELP mine_inputs_total")


def test_bad_input(data: Data):
    detector = CTM().fit(data.train, data.labels)
    with pytest.raises(
        InputError,
        match=r"Monitor: a detector without calibration scores; calibrate it, or pass held_out",
    ):
        Monitor(detector)
    with pytest.raises(InputError, match=r"Monitor: no calibration scores; pass those of held-out"):
        Monitor([])
    for option, message in [
        ({"alpha": 0}, r"Monitor: alpha=0 is not a share"),
        ({"reject_alpha": 2}, r"Monitor: reject_alpha=2 is not a share"),
        ({"window": 0}, r"Monitor: window=0 is not an integer of at least 1"),
        ({"window": True}, r"Monitor: window=True"),
        ({"cells": 2.5}, r"Monitor: cells=2.5"),
        ({"seed": "x"}, r"Monitor: seed='x' is not a seed; pass an integer of at least 0, or None"),
        ({"held_out": data.test}, r"Monitor: held_out is for a detector to score; leave it out"),
    ]:
        with pytest.raises(InputError, match=message):
            Monitor(normal(100), **option)
    monitor = Monitor(normal(100))
    with pytest.raises(
        InputError, match=r"Monitor.observe: made from scores, without a detector; use update"
    ):
        monitor.observe(data.test)
    with pytest.raises(
        InputError,
        match=r"Monitor.update: predicted has shape \(1,\) for 2 scores; pass one per score",
    ):
        monitor.update([1.0, 2.0], predicted=["a"])
    for unknown in (None, math.nan):
        with pytest.raises(
            InputError,
            match=rf"Monitor.update: predicted class {unknown} of row 1 is neither a num",
        ):
            monitor.update([1.0, 2.0], predicted=np.array(["a", unknown], dtype=object))
    assert monitor.inputs == 0


def test_a_class_has_one_rate_however_its_number_came():
    monitor = Monitor(normal(100))
    for predicted in (np.array([3]), np.array([3.0]), np.array([3], dtype=object), ["3"]):
        monitor.update([0.0], predicted)
    assert {name: rate.n for name, rate in monitor.rates.items()} == {"3": 4}


# A restart


@pytest.mark.parametrize("source", ["scores", "detector", "by class"])
@pytest.mark.parametrize("before", [0, 70, 400])
def test_a_restart_goes_on_bit_for_bit(data: Data, tmp_path, source, before):
    """In the middle of keeping scores, and after; with the random numbers that were next."""
    path = tmp_path / "monitor.safetensors"
    detector = CTM().fit(data.train, data.labels)
    known = {
        "scores": detector.score_samples(data.held_out),
        "detector": CTM().fit(data.train, data.labels).calibrate(data.held_out),
        "by class": CTM()
        .fit(data.train, data.labels)
        .calibrate(data.held_out, by_class=True, groups={}),
    }[source]
    monitor = Monitor(known, alpha=0.02, reject_alpha=0.1, window=60, cells=300)
    rng = np.random.default_rng(0)
    stream = rng.choice(np.concatenate([data.test, data.test, data.ood]), size=900)
    scores, classes = detector.score_samples(stream), detector.classify(stream)
    monitor.update(scores[:before], classes[:before])
    monitor.save(path)
    loaded = typica.load(path)
    for start in range(before, 900, 130):
        part = slice(start, start + 130)
        assert monitor.update(scores[part], classes[part]) == loaded.update(
            scores[part], classes[part]
        )
        assert monitor.to_dict() == loaded.to_dict()
        assert monitor.prometheus() == loaded.prometheus()
    first, second = tmp_path / "first", tmp_path / "second"
    monitor.save(first)
    loaded.save(second)
    assert first.read_bytes() == second.read_bytes()
    monitor.reset()
    loaded.reset()
    assert (
        monitor.update(scores, classes) == loaded.update(scores, classes)
        and monitor.wealth == loaded.wealth
    )


def test_a_fresh_process_goes_on(tmp_path):
    path = tmp_path / "monitor.safetensors"
    monitor = Monitor(normal(200))
    monitor.update(normal(100, seed=1))
    monitor.save(path)
    code = (
        f"import typica; m = typica.load({str(path)!r}); "
        "m.update([0.1, 0.2, -3.0]); print(m.wealth.hex())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    monitor.update([0.1, 0.2, -3.0])
    assert done.stdout.strip() == monitor.wealth.hex()


# The shell's lines


@settings(max_examples=30)
@given(st.lists(st.floats(allow_nan=False), max_size=20), st.integers(1, 7), st.booleans())
def test_read_scores(scores, size, named):
    lines = []
    for i, score in enumerate(scores):
        value = score if math.isfinite(score) else str(score)
        lines += [json.dumps({"score": value, "nearest": i} if named else {"score": value}), "\n"]
    batches = list(read_scores(lines, size))
    assert [float(s) for batch, _ in batches for s in batch] == scores
    assert all(len(batch) == size for batch, _ in batches[:-1])
    if named:
        assert [name for _, names in batches for name in names] == list(range(len(scores)))
    else:
        assert all(names is None for _, names in batches)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            ["1.0", "what"],
            r"^read_scores: line 2: 'what' holds no score; write a number or \{\"score\": number\}",
        ),
        (['{"value": 1}'], r"^read_scores: line 1: .* holds no score"),
        (["[1]"], r"^read_scores: line 1: '\[1\]' holds no score"),
        (["", "NaN"], r"^read_scores: line 2: the score is NaN; fix the input or the detector"),
        (
            ["1", '{"score": 1, "class": "a"}'],
            r"^read_scores: line 2 and the lines before it differ: some have a class, some do not",
        ),
        (
            ['{"score": 1, "class": {"name": "a"}}'],
            r"^read_scores: line 1: the class is not a single name; write a text or a number",
        ),
    ],
)
def test_bad_lines(lines, message):
    with pytest.raises(InputError, match=message):
        list(read_scores(lines))


@pytest.mark.parametrize("sources", [5, None, "monday", {"monday": 1}, [1], [["monday"]]])
def test_a_forged_list_of_sources_is_refused(sources, tmp_path):
    path = tmp_path / "state.safetensors"
    Monitor(np.arange(40.0)).save(path)
    document, tensors = read_detector(path)
    document["content"]["$monitor"]["sources"] = sources
    write_detector(path, document, tensors)
    with pytest.raises(FormatError, match=r"state\.safetensors"):
        typica.load(path)
