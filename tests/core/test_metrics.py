import json
import math
import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

import typica
from typica.errors import InputError
from typica.metrics import CONVENTIONS, METRICS, Evaluation, Result, evaluate, evaluate_many

INF = math.inf
MEASURES = (*METRICS, "threshold")
tied_scores = st.lists(
    st.sampled_from([-INF, -2.0, -0.0, 0.0, 0.5, 1.0, 3.0, INF]), min_size=1, max_size=12
)
any_scores = tied_scores | st.lists(st.floats(allow_nan=False), min_size=1, max_size=12)
shares = st.integers(1, 100).map(lambda percent: Fraction(percent, 100))


def by_definition(ids, oods, tpr, convention="first"):
    """Every metric from its definition, over all thresholds and pairs, in exact fractions."""
    ids, oods = [float(s) for s in ids], [float(s) for s in oods]
    thresholds = sorted({*ids, *oods}, reverse=True)

    def accepted(scores, threshold):
        return Fraction(sum(s >= threshold for s in scores), len(scores))

    # The ROC curve from "accept none" on; its first point has no threshold among the scores.
    points = [(Fraction(0), Fraction(0), None)]
    points += [(accepted(ids, t), accepted(oods, t), t) for t in thresholds]
    if convention == "first":
        fpr, threshold = next((f, t) for share, f, t in points if share >= tpr)
    elif convention == "rank":
        threshold = sorted(ids)[min(round((1 - tpr) * len(ids)), len(ids) - 1)]
        fpr = accepted(oods, threshold)
    elif any(share == tpr for share, _, _ in points):
        fpr, threshold = max((f, -t) for share, f, t in points if share == tpr)
        threshold = -threshold
    else:
        after = next(i for i, (share, _, _) in enumerate(points) if share > tpr)
        (low, low_fpr, _), (high, high_fpr, threshold) = points[after - 1 : after + 1]
        fpr = low_fpr + (high_fpr - low_fpr) * (tpr - low) / (high - low)

    def average_precision(positives, negatives):
        total, recall = Fraction(0), Fraction(0)
        for t in sorted({*positives, *negatives}, reverse=True):
            hits, alarms = sum(s >= t for s in positives), sum(s >= t for s in negatives)
            total += (Fraction(hits, len(positives)) - recall) * Fraction(hits, hits + alarms)
            recall = Fraction(hits, len(positives))
        return total

    pairs = sum(Fraction(i > o) + Fraction(i == o, 2) for i in ids for o in oods)
    return {
        "fpr": float(fpr),
        "auroc": float(pairs / (len(ids) * len(oods))),
        "aupr_in": float(average_precision(ids, oods)),
        "aupr_out": float(average_precision([-s for s in oods], [-s for s in ids])),
        "detection_error": float(min((1 - share + f) / 2 for share, f, _ in points)),
        "threshold": threshold,
    }


def assert_measures(result, expected):
    for name in ("fpr", "auroc", "detection_error", "threshold"):
        assert getattr(result, name) == expected[name], name
    for name in ("aupr_in", "aupr_out"):
        assert getattr(result, name) == pytest.approx(expected[name], rel=1e-13), name


def normal_scores(n_id, n_ood, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(1.5, 1, n_id), rng.normal(0, 1, n_ood)


@pytest.mark.parametrize("convention", CONVENTIONS)
@given(ids=any_scores, oods=any_scores, tpr=shares)
def test_every_metric_is_its_definition(convention, ids, oods, tpr):
    result = evaluate(ids, oods, float(tpr), convention=convention)
    assert_measures(result, by_definition(ids, oods, tpr, convention))
    assert (result.n_id, result.n_ood, result.tpr) == (len(ids), len(oods), float(tpr))
    assert result.convention == convention
    assert result.intervals is None
    assert all(type(getattr(result, name)) is float for name in (*MEASURES, "tpr"))


@pytest.mark.parametrize("decimals", [None, 2])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_agrees_with_scikit_learn(dtype, decimals):
    ids, oods = (
        s if decimals is None else s.round(decimals) for s in normal_scores(30_000, 50_000)
    )
    ids, oods = ids.astype(dtype), oods.astype(dtype)
    is_id, scores = (
        np.repeat([1, 0], [len(ids), len(oods)]),
        np.concatenate([ids, oods]).astype("float64"),
    )
    result = evaluate(ids, oods)
    assert result.auroc == pytest.approx(roc_auc_score(is_id, scores), rel=1e-12)
    assert result.aupr_in == pytest.approx(average_precision_score(is_id, scores), rel=1e-12)
    assert result.aupr_out == pytest.approx(average_precision_score(1 - is_id, -scores), rel=1e-12)
    fpr, tpr, thresholds = roc_curve(is_id, scores, drop_intermediate=False)
    assert result.fpr == fpr[np.argmax(tpr >= 0.95)]
    assert result.threshold == thresholds[np.argmax(tpr >= 0.95)]
    assert result.detection_error == pytest.approx(np.min(1 - tpr + fpr) / 2, rel=1e-12)
    interpolated = evaluate(ids, oods, convention="interpolated")
    assert interpolated.fpr == pytest.approx(np.interp(0.95, tpr, fpr), rel=1e-12)


@pytest.mark.parametrize(
    ("tpr", "n", "kept"),
    [
        *[
            (0.9, 10, 9),
            (0.9, 20, 18),
            (0.9, 100, 90),
            (0.95, 20, 19),
            (0.95, 100, 95),
            (0.95, 10, 10),
        ],
        *[(0.07, 100, 7), (0.14, 50, 7), (0.28, 25, 7), (0.55, 100, 55), (1, 7, 7), (1e-9, 7, 1)],
        *[(np.float32(0.95), 20, 19), (Fraction(1, 3), 9, 3)],
    ],
)
def test_first_keeps_exactly_the_share_that_was_asked_for(tpr, n, kept):
    result = evaluate(np.arange(n), np.arange(n), tpr)
    assert result.threshold == n - kept
    assert result.fpr == kept / n


@pytest.mark.parametrize(
    ("tpr", "n", "rank"), [(0.95, 20, 1), (0.95, 10, 0), (0.95, 30, 2), (0.9, 15, 2)]
)
def test_rank_rounds_halves_to_even(tpr, n, rank):
    assert evaluate(np.arange(n), [0], tpr, convention="rank").threshold == rank


def test_rank_stops_at_the_last_score():
    assert evaluate([1, 2, 3], [0], 0.01, convention="rank").threshold == 3


def test_interpolated_on_a_slope_and_on_a_flat_stretch():
    # Half of the tied step at 1 is needed for tpr = 0.75.
    slope = evaluate([2, 2, 1, 1], [1, 1, 0], 0.75, convention="interpolated")
    assert (slope.fpr, slope.threshold) == (1 / 3, 1)
    flat = evaluate([3, 0], [2, 1, -1], 0.5, convention="interpolated")
    assert (flat.fpr, flat.threshold) == (2 / 3, 1)
    assert evaluate([3, 0], [2, 1, -1], 0.5).fpr == 0


@given(ids=any_scores, oods=any_scores)
def test_swapping_the_sides_mirrors(ids, oods):
    result = evaluate(ids, oods)
    swapped = evaluate(oods, ids)
    mirrored = evaluate([-s for s in oods], [-s for s in ids])
    assert result.auroc == pytest.approx(1 - swapped.auroc, abs=1e-15)
    assert result.auroc == mirrored.auroc
    assert result.aupr_in == pytest.approx(mirrored.aupr_out, rel=1e-13)
    assert result.detection_error == mirrored.detection_error


@pytest.mark.parametrize("convention", CONVENTIONS)
@given(
    ids=st.lists(st.integers(-8, 8), min_size=1),
    oods=st.lists(st.integers(-8, 8), min_size=1),
    tpr=shares,
)
def test_a_strictly_increasing_transform_moves_the_threshold_only(convention, ids, oods, tpr):
    before = evaluate(ids, oods, tpr, convention=convention)
    after = evaluate(np.exp(ids), np.exp(oods), tpr, convention=convention)
    assert after.threshold == np.exp(np.float64(before.threshold))
    assert all(getattr(after, name) == getattr(before, name) for name in METRICS)


@given(ids=any_scores, oods=any_scores, seed=st.integers(0, 9))
def test_order_does_not_matter(ids, oods, seed):
    rng = np.random.default_rng(seed)
    assert evaluate(rng.permutation(ids), rng.permutation(oods)) == evaluate(ids, oods)


@given(ids=any_scores, oods=any_scores)
def test_metrics_are_shares(ids, oods):
    result = evaluate(ids, oods)
    assert all(0 <= getattr(result, name) <= 1 for name in METRICS)
    assert result.detection_error <= 0.5


def test_perfect_and_inverted_and_constant_scores():
    perfect = evaluate([3, 2], [1, 0])
    assert [getattr(perfect, name) for name in MEASURES] == [0, 1, 1, 1, 0, 2]
    inverted = evaluate([1, 0], [3, 2])
    assert [getattr(inverted, name) for name in METRICS] == pytest.approx(
        [1, 0, 5 / 12, 5 / 12, 0.5]
    )
    constant = evaluate([7.0] * 3, [7.0])
    assert [getattr(constant, name) for name in MEASURES] == [1, 0.5, 0.75, 0.25, 0.5, 7]


def test_one_score_a_side():
    assert evaluate([1.0], [0.0]).auroc == 1
    assert evaluate([0.0], [1.0]).auroc == 0
    assert evaluate([1.0], [1.0]).auroc == 0.5


def test_infinite_scores_and_thresholds():
    result = evaluate([INF, INF], [INF, -INF, 0.0])
    assert (result.threshold, result.fpr, result.auroc) == (INF, 1 / 3, 5 / 6)
    lowest = evaluate([-INF, 1.0], [-INF, 0.0], bootstrap=9)
    assert (lowest.threshold, lowest.fpr) == (-INF, 1)
    record = json.loads(json.dumps(lowest.to_dict(), allow_nan=False))
    assert record["threshold"] == "-inf"
    assert record["intervals"]["threshold"][0] == "-inf"
    assert float(result.to_dict()["threshold"]) == INF


def test_zeros_of_either_sign_are_equal():
    assert evaluate([0.0, -0.0], [-0.0, 0.0]).auroc == 0.5


@pytest.mark.parametrize(
    "make",
    [
        list,
        tuple,
        np.int8,
        np.uint64,
        np.float16,
        np.float32,
        np.longdouble,
        lambda s: np.array(s, ">f8"),
    ],
)
def test_any_array_like_of_numbers(make):
    ids, oods = [5, 4, 4, 2, 0], [4, 3, 1]
    assert evaluate(make(ids), make(oods), 0.8) == evaluate(ids, oods, 0.8)
    assert evaluate(make(ids), np.float64(oods), 0.8) == evaluate(ids, oods, 0.8)


def test_float32_scores_keep_their_own_threshold():
    ids = np.float32([0.1, 0.2, 0.3])
    threshold = evaluate(ids, ids, 1.0).threshold
    assert threshold == float(np.float32(0.1))
    assert (ids >= threshold).all()


def test_mixed_precision_compares_exactly():
    # float32(0.1) lies above 0.1: no tie.
    assert evaluate(np.float32([0.1]), np.array([0.1])).auroc == 1


@pytest.mark.parametrize(
    "scores", [np.array([2**60 + 1, 2**60]), 1 + np.longdouble(2) ** -60 * np.arange(2)]
)
def test_numbers_that_float64_cannot_tell_apart_are_equal(scores):
    assert evaluate(scores[:1], scores[1:]).auroc == 0.5


def test_booleans_and_strides():
    assert evaluate(np.array([True, True, False]), np.array([False])).auroc == pytest.approx(5 / 6)
    ids, oods = normal_scores(20, 20)
    assert evaluate(ids[::-2], oods[::2]) == evaluate(ids[::-2].copy(), oods[::2].copy())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int64"])
def test_torch_tensors(dtype):
    torch = pytest.importorskip("torch")
    ids, oods = [5, 4, 4, 2, 0], [4, 3, 1]
    tensors = [torch.tensor(s, dtype=getattr(torch, dtype)) for s in (ids, oods)]
    assert evaluate(*tensors, 0.8) == evaluate(ids, oods, 0.8)
    if dtype != "int64":
        assert evaluate(*(t.requires_grad_() for t in tensors), 0.8) == evaluate(ids, oods, 0.8)


def test_input_is_not_written_to():
    ids, oods = normal_scores(50, 40)
    copies = ids.copy(), oods.copy()
    ids.flags.writeable = oods.flags.writeable = False
    evaluate(ids, oods, bootstrap=3)
    evaluate_many("ctm", ids, {"a": oods}, bootstrap=3)
    assert np.array_equal(ids, copies[0])
    assert np.array_equal(oods, copies[1])


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([], r"has shape \(0,\); pass a 1-D array of one or more scores\."),
        (1.0, r"has shape \(\); pass a 1-D array"),
        (np.zeros((3, 1)), r"has shape \(3, 1\); pass a 1-D array"),
        ([1.0, math.nan, 2.0, math.nan], r"has 2 NaN of 4 scores; fix or drop them\."),
        (np.array([np.nan], "float32"), "has 1 NaN of 1 scores"),
        (["a"], r"has dtype <U1; pass real numbers\."),
        ([1j], r"has dtype complex128; pass real numbers\."),
        ([None, 1.0], "has dtype object"),
        ([[1.0], [1.0, 2.0]], r"is not an array \(.*\); pass a 1-D array of numbers\."),
    ],
)
def test_scores_that_cannot_be_used(scores, message):
    with pytest.raises(InputError, match=f"^evaluate: id_scores {message}"):
        evaluate(scores, [1.0])
    with pytest.raises(InputError, match=f"^evaluate: ood_scores {message}"):
        evaluate([1.0], scores)
    with pytest.raises(InputError, match=rf"^evaluate_many: ood_scores\['b'\] {message}"):
        evaluate_many("ctm", [1.0], {"a": [1.0], "b": scores})
    with pytest.raises(InputError, match=f"^evaluate_many: id_scores {message}"):
        evaluate_many("ctm", scores, {"a": [1.0]})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tpr": bad}, r"tpr=.* is not a share; pass a number above 0 and at most 1\.")
        for bad in (0, -0.1, 1.001, 95, math.nan, INF, True)
    ]
    + [
        ({"alpha": bad}, r"alpha=.* is not a share; pass a number at least 0 and below 1\.")
        for bad in (-0.1, 1, 5, math.nan, "x", False)
    ]
    + [
        (
            {"alpha": 0.1, "tpr": 0.9},
            r"alpha=0.1 and tpr=0.9 say the same thing twice; pass one of them\.",
        )
    ]
    + [
        ({"confidence": bad}, r"confidence=.* is not a share; pass a number above 0 and below 1\.")
        for bad in (0, 1, 1.5, math.nan)
    ]
    + [
        ({name: bad}, rf"{name}=.* is not an integer of at least 0; pass {name}>=0\.")
        for name in ("bootstrap", "seed")
        for bad in (-1, 2.0, None, True)
    ]
    + [
        (
            {"convention": "last"},
            r"convention='last'; choose one of first, interpolated, rank\.",
        )
    ],
)
def test_options_that_cannot_be_used(options, message):
    with pytest.raises(InputError, match=f"^evaluate: {message}"):
        evaluate([1.0], [0.0], **options)
    with pytest.raises(InputError, match=f"^evaluate_many: {message}"):
        evaluate_many("ctm", [1.0], {"a": [0.0]}, **options)


@pytest.mark.parametrize("nothing", [{}, [[1.0]], np.ones(3)])
def test_evaluate_many_needs_a_named_set(nothing):
    with pytest.raises(
        InputError, match=r"^evaluate_many: ood_scores holds no named OOD set; pass {name: "
    ):
        evaluate_many("ctm", [1.0], nothing)


@pytest.mark.parametrize("convention", CONVENTIONS)
@settings(max_examples=20)
@given(ids=tied_scores, oods=tied_scores, tpr=shares, seed=st.integers(0, 99))
def test_intervals_are_those_of_resampled_scores(convention, ids, oods, tpr, seed):
    options = {"convention": convention, "bootstrap": 10, "confidence": 0.8, "seed": seed}
    result = evaluate(ids, oods, tpr, **options)
    rng = np.random.default_rng(seed)
    draws = []
    for _ in range(10):
        some_ids, some_oods = (np.sort(s)[rng.integers(len(s), size=len(s))] for s in (ids, oods))
        draws.append(by_definition(some_ids, some_oods, tpr, convention))
    for name in MEASURES:
        in_order = sorted(draw[name] for draw in draws)
        assert result.intervals[name] == pytest.approx((in_order[1], in_order[8]), rel=1e-13)


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_intervals_hold_the_estimate_and_narrow_with_data(convention):
    def widths(n):
        result = evaluate(*normal_scores(n, n), convention=convention, bootstrap=200)
        assert list(result.intervals) == list(MEASURES)
        for name, (low, high) in result.intervals.items():
            assert low <= getattr(result, name) <= high, name
        return {name: high - low for name, (low, high) in result.intervals.items()}

    few, many = widths(100), widths(3000)
    assert all(few[name] > 2 * many[name] > 0 for name in MEASURES)


def test_intervals_follow_seed_and_confidence():
    scores = normal_scores(60, 80)
    one = evaluate(*scores, bootstrap=100, seed=1)
    assert one == evaluate(*scores, bootstrap=100, seed=1)
    assert one.intervals != evaluate(*scores, bootstrap=100, seed=2).intervals
    wide = evaluate(*scores, bootstrap=100, seed=1, confidence=0.99).intervals["auroc"]
    narrow = evaluate(*scores, bootstrap=100, seed=1, confidence=0.5).intervals["auroc"]
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


def test_the_interval_of_auroc_covers_the_truth_about_as_often_as_it_says():
    truth = 0.5 * (1 + math.erf(1.5 / 2))  # P(N(1.5, 1) > N(0, 1))
    intervals = [
        evaluate(*normal_scores(80, 80, seed), bootstrap=80, confidence=0.9).intervals["auroc"]
        for seed in range(100)
    ]
    assert 0.82 <= np.mean([low <= truth <= high for low, high in intervals]) <= 0.97


def test_result_to_dict_survives_json():
    result = evaluate(*normal_scores(30, 40))
    record = result.to_dict()
    assert list(record) == ["n", *MEASURES]
    assert record == {"n": 40} | {name: getattr(result, name) for name in MEASURES}
    assert json.loads(json.dumps(record)) == record
    record = evaluate(*normal_scores(30, 40), bootstrap=5).to_dict()
    assert list(record) == ["n", *MEASURES, "intervals"]
    assert list(record["intervals"]) == list(MEASURES)
    assert json.loads(json.dumps(record)) == record


def test_results_are_frozen():
    result = evaluate([1.0], [0.0])
    with pytest.raises(AttributeError):
        result.fpr = 0.0
    assert not hasattr(result, "__dict__")


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_evaluate_many_is_evaluate_for_each_set(convention):
    ids, near = normal_scores(90, 70)
    far = near[:30].astype("float32") - 1
    options = {"tpr": 0.9, "convention": convention, "bootstrap": 4, "seed": 3}
    evaluation = evaluate_many("ctm", ids, {"near": near, "far": far}, **options)
    assert evaluation.ood == {
        "near": evaluate(ids, near, **options),
        "far": evaluate(ids, far, **options),
    }
    assert list(evaluation.average) == list(METRICS)
    for name, value in evaluation.average.items():
        both = [getattr(evaluation.ood[which], name) for which in ("near", "far")]
        assert value == pytest.approx(sum(both) / 2, rel=1e-15)
    record = evaluation.to_dict()
    assert record == {
        "detector": "ctm",
        "tpr": 0.9,
        "convention": convention,
        "id": {"n": 90},
        "ood": {name: result.to_dict() for name, result in evaluation.ood.items()},
        "average": evaluation.average,
    }
    assert json.loads(evaluation.to_json()) == record
    assert evaluation.to_json().startswith('{\n  "detector"')
    assert "\n" not in evaluation.to_json(indent=None)


def test_evaluation_to_json_with_infinite_scores():
    evaluation = evaluate_many("ctm", [INF], {"far": [0.0]})
    assert json.loads(evaluation.to_json())["ood"]["far"]["threshold"] == "inf"


def test_evaluation_refuses_results_that_were_not_measured_alike():
    result = evaluate([1.0, 2.0], [0.0], 0.9)
    assert Evaluation("ctm", 0.9, 2, {"a": result}).average["auroc"] == 1
    expected = r"pass at least one, all of \(0\.9, 2, 'first'\)\.$"
    other = evaluate([1.0, 2.0], [0.0], 0.9, convention="rank")
    for ood in ({}, {"a": other}, {"a": result, "b": evaluate([1.0], [0.0], 0.9)}):
        with pytest.raises(InputError, match=f"^Evaluation: ood has results of .*; {expected}"):
            Evaluation("ctm", 0.9, 2, ood)


def test_an_alpha_that_is_nearly_one_is_not_one():
    assert evaluate([1.0, 2.0], [0.0], alpha=1 - 2**-53).threshold == 2.0


def test_every_convention_is_one_sentence():
    assert list(CONVENTIONS) == ["first", "interpolated", "rank"]
    assert all(text.endswith(".") and ". " not in text for text in CONVENTIONS.values())
    assert isinstance(evaluate([1.0], [0.0]), Result)


def test_a_detector_or_several_sets_get_one_line_on_what_to_pass(data):
    detector = typica.CTM().fit(data.train, data.labels)
    with pytest.raises(typica.InputError, match=r"evaluate: takes scores, not a detector; pass"):
        typica.evaluate(detector, data.test, {"svhn": data.ood})
    scores = detector.score_samples(data.test)
    with pytest.raises(typica.InputError, match=r"evaluate: takes one OOD set; .*evaluate_many"):
        typica.evaluate(scores, {"svhn": detector.score_samples(data.ood)})


def test_a_printed_result_is_in_percent_as_its_card_is():
    result = typica.evaluate([0.9, 0.8, 0.4, 0.3], [0.85, 0.1, 0.2])
    printed = str(result)
    assert printed.startswith("4 ID, 3 OOD: FPR95 33.33 %, AUROC 75 %, ")
    card = result._repr_html_()
    for number in re.findall(r"([0-9.]+) %", printed):
        assert f"<td>{number}</td>" in card
