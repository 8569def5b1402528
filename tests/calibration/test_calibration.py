"""The calibration itself: the right order statistic, in exact arithmetic; samples and merges."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from typica.calibration import Calibration, Levels, ScoreSample, guaranteed_rank
from typica.errors import CalibrationWarning, InputError
from typica.keys import row_keys

INF = math.inf


def calibration(scores, tpr=0.95, **options) -> Calibration:
    return Calibration(Levels.of(tpr=tpr), **options).add(np.asarray(scores, dtype=np.float64))


# Ranks and thresholds


@pytest.mark.parametrize(
    ("n", "tpr", "k"),
    [(9, 0.9, 1), (19, 0.9, 2), (99, 0.9, 10), (19, 0.95, 1), (18, 0.95, 0), (999, 0.999, 1)],
)
def test_rank_is_exact_where_floats_are_not(n, tpr, k):
    assert guaranteed_rank(n, Levels.of(tpr=tpr).alpha) == k
    assert guaranteed_rank(n, 1 - tpr) == k


@given(st.integers(1, 10**6), st.integers(1, 1000))
def test_rank_equals_the_fraction(n, thousandths):
    alpha = Levels.of(tpr=thousandths / 1000).alpha
    assert guaranteed_rank(n, alpha) == (n + 1) * (1000 - thousandths) // 1000


@given(st.lists(st.floats(allow_nan=False), min_size=19, max_size=200), st.integers(500, 1000))
def test_the_threshold_keeps_what_it_promises(scores, thousandths):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        made = calibration(scores, thousandths / 1000)
        if made.k and sorted(scores)[made.k - 1] == -INF:
            with pytest.raises(InputError, match="a threshold of -inf accepts all rows"):
                _ = made.threshold
            return
        threshold = made.threshold
    rejected = sum(score < threshold for score in scores)
    assert Fraction(rejected, len(scores)) <= Fraction(1000 - thousandths, 1000) * Fraction(
        len(scores) + 1, len(scores)
    )
    if made.k:
        assert threshold == sorted(scores)[made.k - 1]
        assert rejected < made.k
    else:
        assert threshold == -INF


def test_too_few_inputs_are_said_with_how_many_are_needed():
    with pytest.warns(
        CalibrationWarning,
        match=r"18 calibration inputs are too few to reject anything at alpha=0.05; "
        r"pass at least 19",
    ) as caught:
        assert calibration(np.arange(18.0)).threshold == -INF
    assert caught[0].filename == __file__
    assert calibration(np.arange(19.0)).threshold == 0
    assert calibration(np.arange(5.0), tpr=1).threshold == -INF  # asked for: nothing to warn of


@pytest.mark.parametrize("tpr", [0, -1, 1.01, float("nan"), "much"])
def test_tpr_must_be_a_share(tpr):
    with pytest.raises(InputError, match="is not a share; pass a number above 0 and at most 1"):
        Levels.of(tpr=tpr)


def test_levels_are_one_choice():
    assert Levels.of() == Levels.of(alpha=0.05) == Levels.of(tpr="0.95")
    with pytest.raises(
        InputError, match=r"alpha=0.1 and tpr=0.9 say the same thing twice; pass one of them"
    ):
        Levels.of(alpha=0.1, tpr=0.9)


def test_percentiles_by_definition():
    rng = np.random.default_rng(0)
    scores, asked = rng.normal(size=500).round(1), rng.normal(size=200).round(1)
    wanted = [100 * sum(scores <= x) / 500 for x in asked]
    np.testing.assert_allclose(calibration(scores).percentiles(asked), wanted, atol=1e-12)


def test_discoveries_of_a_sample_use_what_is_kept():
    rng = np.random.default_rng(0)
    made = calibration(rng.normal(size=5000), limit=199)
    assert made.n == 5000 and made.samples["all"].kept == 199
    assert made.p_values(np.array([-99.0])).tolist() == [1 / 200]
    for method in ("bh", "storey"):
        new = np.concatenate([np.full(50, -99.0), rng.normal(size=50)])
        assert made.discoveries(new, fdr=0.2, method=method)[:50].all()


# Keys and samples


def test_keys_are_a_hash_of_source_and_row():
    keys = row_keys("a.npy", 0, 100_000)
    assert len(set(keys.tolist())) == 100_000
    np.testing.assert_array_equal(row_keys("a.npy", 77, 10), keys[77:87])
    assert not set(keys.tolist()) & set(row_keys("b.npy", 0, 100_000).tolist())
    # Uniform: each of 64 bits is set half of the time, within six standard deviations.
    bits = np.unpackbits(keys.view(np.uint8)).reshape(len(keys), 64).sum(axis=0, dtype=np.int64)
    assert np.abs(bits - 50_000).max() < 6 * math.sqrt(100_000 / 4)


def test_keys_stay_as_they_are():
    """Files hold keys: another hash would break merges with what was written before."""
    assert row_keys("", 0, 3).tolist() == KEYS[""]
    assert row_keys("part-0.parquet", 5, 2).tolist() == KEYS["part-0.parquet"]


KEYS = {
    "": [1303996209471268073, 5903023722320183071, 15379606363083136389],
    "part-0.parquet": [4621457161464194411, 7724917708449731929],
}


def sample(scores, keys, limit):
    return ScoreSample(limit).add(np.asarray(scores, dtype=np.float64), np.asarray(keys, np.uint64))


@given(
    st.lists(st.sampled_from([0.0, 1.0, 1.5, -INF, INF]) | st.floats(-5, 5), max_size=80),
    st.integers(1, 30),
    st.integers(1, 6),
    st.randoms(use_true_random=False),
)
def test_a_sample_is_the_smallest_keys_whatever_the_batches_and_merges(
    scores, limit, parts, random
):
    keys = row_keys("x", 0, len(scores)).tolist()
    wanted = sorted(zip(keys, scores, strict=True))[:limit]
    rows = list(range(len(scores)))
    random.shuffle(rows)
    samples = [ScoreSample(limit) for _ in range(parts)]
    for row in rows:
        samples[row % parts].add([scores[row]], np.array([keys[row]], dtype=np.uint64))
    whole = samples[0]
    for other in samples[1:]:
        whole.merge(other)
    assert whole.n == len(scores) and whole.kept == len(wanted)
    assert whole.ordered.tolist() == sorted(score for _, score in wanted)
    at_once = sample(scores, keys, limit)
    for one, other in zip(whole.state().values(), at_once.state().values(), strict=True):
        np.testing.assert_array_equal(one, other)


@given(st.permutations(range(4)))
def test_merges_in_any_order_are_equal(order):
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=30) for _ in order]

    def merged(names):
        made = Calibration(limit=50, scored_by="f")
        for i in names:
            part = Calibration(limit=50, scored_by="f").add(parts[i], source=f"part-{i}")
            made.merge(part)
        return made

    np.testing.assert_array_equal(merged(order).scores, merged(range(4)).scores)
    assert merged(order).n == 120


def test_what_is_merged_equals_one_stream_over_the_same_files():
    rng = np.random.default_rng(1)
    files = {f"{i}.npy": rng.normal(size=200).round(1) for i in range(3)}
    stream = Calibration(limit=100, scored_by="f")
    for name, scores in files.items():
        for batch in np.array_split(scores, 4):
            stream.add(batch, source=name)
    merged = Calibration(limit=100, scored_by="f")
    for name, scores in reversed(files.items()):
        merged.merge(Calibration(limit=100, scored_by="f").add(scores, source=name))
    np.testing.assert_array_equal(stream.scores, merged.scores)


def test_merge_refuses_what_does_not_belong_together():
    one = Calibration(scored_by="f").add(np.arange(5.0), source="a.npy")
    for other, message in [
        (one, r"merge: it cannot merge with itself; pass another Calibration"),
        ("scores", r"merge: got str; pass another Calibration"),
        (Calibration(by_class=True, scored_by="f"), r"merge: by_class or groups differ"),
        (Calibration(limit=9, scored_by="f"), r"merge: limits of 1048576 and 9 scores"),
        (Calibration(scored_by="g"), r"merge: the two detectors are not known to be equal"),
        (
            Calibration(scored_by="f").add(np.arange(5.0), source="a.npy"),
            r"merge: row 0 of 'a.npy' comes twice; take in each row once",
        ),
    ]:
        with pytest.raises(InputError, match=message):
            one.merge(other)
        assert one.n == 5
    with pytest.raises(InputError, match=r"not known to be equal"):
        Calibration().merge(Calibration())
    with pytest.raises(InputError, match=r"by_class or groups differ"):
        Calibration(by_class=True, groups={"a": "x"}).merge(Calibration(by_class=True))


def test_equal_scores_come_and_go_one_by_one():
    """Of a thousand equal scores half stay: a sample by keys of scores would keep all or none."""
    scores = np.repeat([0.0, 1.0], 1000)
    made = calibration(scores, limit=1000)
    share = float(made.scores.mean())
    assert abs(share - 0.5) < 6 * math.sqrt(0.25 / 1000)


@pytest.mark.parametrize("limit", [50, 10_000])
def test_a_sample_of_all_groups_is_the_one_that_is_kept_without_groups(limit):
    rng = np.random.default_rng(0)
    scores, classes = rng.normal(size=2000), (rng.random(2000) < 0.1).astype(int)
    by_class = Calibration(by_class=True, limit=limit).add(scores, classes, source="a.npy")
    together = Calibration(limit=limit).add(scores, source="a.npy")
    np.testing.assert_array_equal(np.sort(by_class.sample_of_all), together.scores)
    np.testing.assert_array_equal(together.sample_of_all, together.scores)


def test_groups_join_classes_and_others_stand_alone():
    made = Calibration(by_class=True, groups={0: "x", 1: "x"})
    made.add(np.arange(6.0), np.array([0, 1, 2, 0, 1, 3]))
    assert {name: part.n for name, part in made.samples.items()} == {"2": 1, "3": 1, "x": 4}
    with pytest.raises(InputError, match=r"groups without by_class; pass by_class=True as well"):
        Calibration(groups={})
    for name in ("threshold", "k"):
        with pytest.raises(AttributeError, match=r"one threshold per group"):
            getattr(made, name)


def test_to_dict_tells_what_was_seen_and_what_is_kept():
    made = calibration(np.arange(1000.0), limit=99)
    described = made.to_dict()
    assert described["n"] == 1000 and described["alpha"] == 0.05 and described["confidence"] is None
    assert list(described["groups"]) == ["all"]
    entry = described["groups"]["all"]
    assert (entry["n"], entry["kept"], entry["k"]) == (1000, 99, 5)
    assert entry["threshold"] == sorted(made.scores)[4]


def test_a_large_group_is_cut_to_the_limit_as_it_grows():
    made = Calibration(limit=64)
    for batch in np.array_split(np.arange(10_000.0), 30):
        made.add(batch)
        assert len(made.samples["all"]._scores) <= 64 and made.samples["all"].kept <= 64
    assert made.n == 10_000


def test_bad_input_of_the_record_itself():
    plain, by_class = calibration(np.arange(99.0)), Calibration(by_class=True)
    with pytest.raises(InputError, match=r"Calibration.add: classes are for by_class=True; leave"):
        plain.add([1.0], ["cat"])
    with pytest.raises(
        InputError, match=r"Calibration.add: calibrated by class; pass the predicted"
    ):
        by_class.add([1.0])
    with pytest.raises(
        InputError, match=r"classes of shape \(1,\) for 2 scores; pass one per score"
    ):
        by_class.add([1.0, 2.0], ["cat"])
    for start, what in ((-1, "-1"), (1.5, "1.5")):
        with pytest.raises(
            InputError, match=rf"Calibration.add: start={what} is not an integer of"
        ):
            plain.add([1.0], start=start)
    with pytest.raises(InputError, match=r"Calibration.add: source=5 is not a name; pass text"):
        plain.add([1.0], source=5)
    with pytest.raises(
        InputError, match=r"Calibration: levels=0.05 are not Levels; pass e.g. Levels.of"
    ):
        Calibration(0.05)
    with pytest.raises(InputError, match=r"Calibration: groups is a list, not a mapping; pass"):
        Calibration(by_class=True, groups=["a", "b"])
    assert by_class.n == 0 and plain.n == 99
    assert plain.p_values([0.5, 200.0]).tolist() == [0.02, 1.0]
    empty = Calibration()
    assert empty.thresholds() == {} and not hasattr(empty, "threshold") and empty.samples == {}
    assert len(empty.scores) == 0


def test_a_source_may_be_a_path():
    by_path = Calibration().add(np.arange(99.0), source=Path("a.npy"))
    assert by_path.sources.keys() == {"a.npy"}
    with pytest.raises(InputError, match=r"row 5 of 'a.npy' comes twice"):
        by_path.add([1.0], source="a.npy", start=5)


def test_a_refused_merge_changes_nothing():
    whole = Calibration(by_class=True, scored_by="f").add([1.0, 2.0], ["a", "b"], "x.npy")
    other = Calibration(by_class=True, scored_by="f").add([3.0, 4.0], ["a", "b"], "x.npy")
    with pytest.raises(InputError, match=r"x\.npy"):
        whole.merge(other)
    assert whole.n == 2


def test_merge_refuses_rows_that_are_there_already():
    scores = np.random.default_rng(2).normal(size=60)
    one = Calibration(scored_by="f").add(scores[:40])
    other = Calibration(scored_by="f").add(scores[40:])
    half = Calibration(scored_by="f").add(scores[:20])
    whole = Calibration(scored_by="f").add(scores)
    one.merge(other)
    for again in (other, half):
        with pytest.raises(InputError, match=r"merge: both hold the same scores"):
            one.merge(again)
    with pytest.raises(InputError, match=r"merge: both hold the same scores"):
        half.merge(whole)
    assert one.n == 60 and half.n == 20
    ties = Calibration(scored_by="f").add(np.ones(40))
    assert ties.merge(Calibration(scored_by="f").add(np.ones(30))).n == 70  # nobody can tell


def test_merge_past_the_limit_refuses_rows_that_are_there_already():
    scores = np.random.default_rng(3).normal(size=900)
    one = Calibration(limit=50, scored_by="f").add(scores[:500])
    other = Calibration(limit=50, scored_by="f").add(scores[500:])
    one.merge(other)
    with pytest.raises(InputError, match=r"merge: both hold the same scores"):
        one.merge(other)


def test_a_limit_does_not_grow_once_scores_were_dropped():
    few = Calibration(limit=100).add(np.arange(80.0))
    assert few.limit_to(200).limit == 200
    many = Calibration(limit=100).add(np.arange(150.0))
    with pytest.raises(InputError, match=r"limit_to: limit=200 exceeds 100, at which scores were"):
        many.limit_to(200)
    assert many.limit == 100 and many.limit_to(50).samples["all"].kept == 50


# Scores that are equal


@pytest.mark.parametrize(
    ("scores", "told"),
    [
        ([1.0] * 20, "100 % of the 20 calibration scores equal the threshold 1, so it rejects 0 %"),
        (
            [-1.0] * 60 + list(range(40)),
            "60 % of the 100 calibration scores equal the threshold -1",
        ),
        ([0.0] + [1.0] * 99, "99 % of the 100 .* equal the threshold 1, so it rejects 1 % of them"),
    ],
    ids=["all", "lowest", "highest"],
)
def test_equal_scores_that_keep_far_more_than_asked_for_are_warned_of(scores, told):
    with pytest.warns(CalibrationWarning, match=told + ".* and not 5 %; take a method"):
        assert calibration(scores).thresholds() == {"all": scores[1]}


@pytest.mark.parametrize(
    "scores",
    [
        list(range(100)),
        [0.0] * 2 + list(range(1, 40)),  # one of two might be rejected
        [0.0, 1.0, 2.0] + [3.0] * 97,  # three of the five that might be
        [1.0],
    ],
)
def test_equal_scores_that_keep_little_more_are_not(scores):
    calibration(scores, tpr=0.95 if len(scores) > 1 else 0.5).thresholds()  # warnings are errors


def test_the_group_with_the_most_equal_scores_is_named():
    scores = np.concatenate([np.zeros(50), np.arange(50.0), np.arange(50.0)])
    classes = np.repeat(["tied", "apart", "half"], 50)
    made = Calibration(Levels.of(), by_class=True).add(scores, classes)
    told = r"100 % of the 50 calibration scores of group 'tied' equal the threshold 0"
    with pytest.warns(CalibrationWarning, match=told):
        made.thresholds()
    assert made.ties(Levels.of(alpha=0.04)) is not None


@pytest.mark.parametrize("left_out", [[0, 0], [4], [-1], [0.5], None, [[0]], [True]])
def test_places_of_rows_without_a_score_are_checked(left_out):
    made = Calibration()
    with pytest.raises(InputError, match="left_out names no distinct places"):
        made.add([1.0, 2.0, 3.0], left_out=left_out)
    assert made.n == 0
    assert made.add([1.0, 2.0, 3.0], left_out=np.array([])).n == 3
