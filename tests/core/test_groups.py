"""Rows in groups: Simes and Benjamini-Hochberg by definition, and what goes in and out."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest
import torch
from helpers.data import Data
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import false_discovery_control

from typica import CTM, InputError, Mahalanobis, judge
from typica.fdr import benjamini_hochberg
from typica.groups import COLUMNS, judge_groups, named_groups

STEPS = 20
rows = st.lists(st.tuples(st.integers(1, STEPS), st.sampled_from("abcd")), min_size=1, max_size=25)
shares = st.integers(1, 99).map(lambda percent: Fraction(percent, 100))


def rejected(p: list[Fraction], level: Fraction) -> list[bool]:
    """The largest k such that the k-th smallest is at most level * k / m; all up to that one."""
    passing = [x for k, x in enumerate(sorted(p), start=1) if x * len(p) <= level * k]
    return [bool(passing) and x <= passing[-1] for x in p]


def simes(p: list[Fraction]) -> Fraction:
    return min(len(p) * x / k for k, x in enumerate(sorted(p), start=1))


def by_definition(
    numbers: list[int], ids: list[str], level: Fraction
) -> tuple[list[bool], dict[str, Fraction]]:
    """Which rows are rejected at a level, and the p-value of each group, group by group."""
    strange = [False] * len(ids)
    of_groups = {}
    for name in dict.fromkeys(ids):
        places = [i for i, other in enumerate(ids) if other == name]
        p = [Fraction(numbers[i], STEPS) for i in places]
        of_groups[name] = simes(p)
        for i, named in zip(places, rejected(p, level), strict=True):
            strange[i] = named
    return strange, of_groups


@given(rows, shares)
def test_a_false_alarm_rate_by_definition(table, alpha):
    numbers, ids = map(list, zip(*table, strict=True))
    strange, of_groups = by_definition(numbers, ids, alpha)
    found = judge_groups(np.array(numbers) / STEPS, np.array(numbers), ids, alpha=alpha)
    groups = found.groups
    assert (~found.typical).tolist() == strange and found.group.tolist() == ids
    assert groups.group.tolist() == list(of_groups)
    np.testing.assert_allclose(groups.p_value, [min(float(p), 1) for p in of_groups.values()])
    assert groups.typical.tolist() == [p > alpha for p in of_groups.values()]
    assert groups.rows.tolist() == [ids.count(name) for name in of_groups]
    for one in groups:
        places = [i for i, name in enumerate(ids) if name == one.group]
        assert one.atypical == sum(strange[i] for i in places)
        assert (one.verdict == "atypical") == (one.atypical > 0)
        assert one.strangest in places
        assert numbers[one.strangest] == min(numbers[i] for i in places)


@given(rows, shares)
def test_a_false_discovery_rate_by_definition(table, fdr):
    numbers, ids = map(list, zip(*table, strict=True))
    _, of_groups = by_definition(numbers, ids, fdr)
    chosen = rejected(list(of_groups.values()), fdr)
    level = fdr * sum(chosen) / len(of_groups)
    strange, _ = by_definition(numbers, ids, level)
    found = judge_groups(np.array(numbers) / STEPS, np.array(numbers), ids, fdr=fdr)
    assert (~found.groups.typical).tolist() == chosen
    assert (~found.typical).tolist() == strange
    assert found.groups.level == pytest.approx(float(level))


@given(rows, st.randoms())
def test_the_order_of_rows_makes_no_difference(table, random):
    moved = list(range(len(table)))
    random.shuffle(moved)
    numbers, ids = map(np.array, zip(*table, strict=True))
    one = judge_groups(numbers / STEPS, numbers, ids, alpha=0.3)
    other = judge_groups(numbers[moved] / STEPS, numbers[moved], ids[moved], alpha=0.3)
    assert (one.typical[moved] == other.typical).all()
    by_name = dict(zip(one.groups.group, one.groups.p_value, strict=True))
    assert [by_name[name] for name in other.groups.group] == other.groups.p_value.tolist()


def test_one_group_and_groups_of_one_are_what_is_known():
    rng = np.random.default_rng(0)
    p = rng.random(300) ** 3
    whole = judge_groups(p, p, np.zeros(300, dtype=int), alpha=0.1)
    assert (~whole.typical == benjamini_hochberg(p, 0.1)).all()
    assert whole.groups.p_value[0] == pytest.approx(false_discovery_control(p).min())
    alone = judge_groups(p, p, np.arange(300), alpha=0.1)
    assert (~alone.typical == (p <= 0.1)).all()
    assert (alone.groups.p_value == p).all()
    discovered = judge_groups(p, p, np.arange(300), fdr=0.1)
    assert (~discovered.typical == benjamini_hochberg(p, 0.1)).all()


def test_many_groups_at_once_are_exact():
    """Of a million rows each group is adjusted as it is alone, to the last digit."""
    rng = np.random.default_rng(1)
    p = rng.integers(1, 10_001, 200_000) / 10_001
    ids = rng.integers(0, 50_000, 200_000)
    found = judge_groups(p, p, ids, alpha=0.05)
    for name in (0, 17, 49_999):
        own = p[ids == name]
        place = int(np.flatnonzero(found.groups.group == name)[0])
        expected = min(len(own) * x / k for k, x in enumerate(np.sort(own), start=1))
        assert found.groups.p_value[place] == pytest.approx(expected, rel=1e-15)


@pytest.fixture(scope="module")
def detector(data: Data) -> CTM:
    return CTM().fit(data.train, data.labels).calibrate(data.held_out)


def test_rows_and_groups_in_one_pass(data: Data, detector: CTM):
    X = np.concatenate([data.test[:6], data.ood[:2]])
    ids = ["a", "a", "a", "b", "b", "b", "b", "b"]
    found = detector.judge(X, groups=ids)
    plain = detector.judge(X)
    assert (found.score == plain.score).all() and (found.p_value == plain.p_value).all()
    assert found.threshold is None and found.group.tolist() == ids
    assert len(found.groups) == 2 and found[7].group == "b"
    assert repr(found).endswith(f"; {found.groups!r}")
    told = found.to_dict()
    assert told["group"] == ids and json.loads(json.dumps(told)) == told
    strange = found.only("atypical")
    assert strange.groups is found.groups and len(strange.group) == len(strange)
    assert found.sort("group").group.tolist() == sorted(ids)
    table = found.groups.to_dict()
    assert list(table) == list(COLUMNS) and json.loads(json.dumps(table)) == table
    assert found.groups.to_pandas().to_dict("list") == table
    assert "<td>b</td>" in found.groups._repr_html_()


def test_groups_of_any_kind(data: Data, detector: CTM):
    X = data.test[:4]
    wanted = detector.judge(X, groups=[1, 1, 2, 2]).groups
    for ids in (np.array([1, 1, 2, 2]), torch.tensor([1, 1, 2, 2]), np.array([1, 1, 2, 2], object)):
        assert detector.judge(X, groups=ids).groups.to_dict() == wanted.to_dict()
    named = judge(detector, X, groups=np.array(["x", "x", "é", "é"], dtype=object)).groups
    assert named.group.tolist() == ["x", "é"]
    by_class = Mahalanobis().fit(data.train, data.labels)
    by_class.calibrate(data.held_out, by_class=True, groups=dict.fromkeys(range(4), "all"))
    assert len(by_class.judge(X, groups=[0, 0, 1, 1]).groups) == 2


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        ([1, 2], "shape \\(2,\\) for 3 rows"),
        ([[1, 2, 3]], "shape \\(1, 3\\) for 3 rows"),
        ({0: "a"}, "is a mapping, which is for calibrate"),
        ([0.5, 1.5, 2.5], "type float64"),
        ([None, None, None], "or holds neither"),
        (np.array(["a", 1, "b"], dtype=object), "texts and numbers"),
    ],
)
def test_what_is_no_group(data: Data, detector: CTM, groups, said):
    with pytest.raises(InputError, match=said):
        detector.judge(data.test[:3], groups=groups)


def test_groups_need_p_values(data: Data, detector: CTM):
    with pytest.raises(Exception, match="no calibration scores"):
        CTM().fit(data.train, data.labels).judge(data.test[:2], groups=[0, 1])
    sure = CTM().fit(data.train, data.labels).calibrate(data.held_out, confidence=0.9)
    with pytest.raises(InputError, match="groups with a confidence"):
        sure.judge(data.test[:2], groups=[0, 1])
    assert len(sure.judge(data.test[:2], groups=[0, 1], fdr=0.1).groups) == 2
    with pytest.raises(InputError, match="groups with a confidence"):
        detector.judge(data.test[:2], groups=[0, 1], confidence=0.9)


def test_names_come_in_their_order():
    names, codes = named_groups(["z", "a", "z", "m"], 4)
    assert names.tolist() == ["z", "a", "m"] and codes.tolist() == [0, 1, 0, 2]
