"""The paper's protocol, KNN's k, and the ranking of mistakes, against loops and scikit-learn."""

from __future__ import annotations

import itertools
import math
import re
import statistics
from dataclasses import replace

import numpy as np
import pytest
from helpers.data import Data
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.neighbors import NearestNeighbors

from typica.bench._knn_grid import choose_k
from typica.bench._protocol import Measured, measure, subsets
from typica.bench._record import Measure, Record, Row, Stated
from typica.bench._record_tables import tables_of
from typica.bench._skipped import Skipped
from typica.bench._suite import Protocol
from typica.errors import FormatError, InputError
from typica.metrics import METRICS, aurc, e_aurc, evaluate

RNG = np.random.default_rng(0)
ID, SMALL, LARGE = RNG.normal(1, 1, 50), RNG.normal(0, 1, 30), RNG.normal(0, 1, 200)


def reference(known, strange):
    """FPR95, AUROC and both AUPRs by scikit-learn and a loop."""
    target = np.r_[np.ones(len(known)), np.zeros(len(strange))]
    scores = np.r_[known, strange]
    threshold = max(t for t in known if sum(s >= t for s in known) >= 0.95 * len(known))
    return {
        "fpr": sum(s >= threshold for s in strange) / len(strange),
        "auroc": roc_auc_score(target, scores),
        "aupr_in": average_precision_score(target, scores),
        "aupr_out": average_precision_score(1 - target, -scores),
    }


def as_json(measured: Measured) -> dict:
    return Row(measured.on_sets(), measured.average()).to_dict()


def test_a_set_no_larger_than_the_id_set_is_taken_whole():
    found = as_json(measure("m", ID, {"small": SMALL}, Protocol()))["ood"]["small"]
    for metric, value in reference(ID, SMALL).items():
        assert found[metric] == pytest.approx(value, abs=1e-12)
        assert found[f"{metric}_std"] == 0.0
    assert found["n"] == 30 and found["subsets"] == 1


def test_a_set_of_the_same_size_is_taken_whole():
    assert (
        subsets("s", 50, 50, Protocol()) == [slice(None)]
        and len(subsets("s", 51, 50, Protocol())) == 5
    )


def test_a_larger_set_is_averaged_over_subsets():
    protocol = Protocol(subsets=5, seed=3)
    found = as_json(measure("m", ID, {"large": LARGE}, protocol))["ood"]["large"]
    drawn = subsets("large", 200, 50, protocol)
    assert len(drawn) == 5 and all(len(set(rows.tolist())) == 50 for rows in drawn)
    assert len({tuple(sorted(rows.tolist())) for rows in drawn}) == 5
    runs = [reference(ID, LARGE[rows]) for rows in drawn]
    for metric in runs[0]:
        values = [run[metric] for run in runs]
        assert found[metric] == pytest.approx(sum(values) / 5, abs=1e-12)
        mean = sum(values) / 5
        assert found[f"{metric}_std"] == pytest.approx(
            math.sqrt(sum((v - mean) ** 2 for v in values) / 4), abs=1e-12
        )
    assert found["n"] == 50 and found["subsets"] == 5


def test_full_takes_everything_whole():
    found = as_json(measure("m", ID, {"large": LARGE}, Protocol(), full=True))["ood"]["large"]
    assert found["auroc"] == pytest.approx(reference(ID, LARGE)["auroc"]) and found["n"] == 200
    assert found["auroc_std"] == 0.0 == found["fpr_std"]


def test_the_average_and_its_deviation():
    protocol = Protocol()
    measured = measure("m", ID, {"a": LARGE, "small": SMALL, "b": -LARGE}, protocol)
    found = as_json(measured)
    draws = {name: subsets(name, 200, 50, protocol) for name in ("a", "b")}
    per_run = []
    for i in range(5):
        aurocs = [
            roc_auc_score(np.r_[np.ones(50), np.zeros(len(s))], np.r_[ID, s])
            for s in (LARGE[draws["a"][i]], SMALL, -LARGE[draws["b"][i]])
        ]
        per_run.append(sum(aurocs) / 3)
    assert found["average"]["auroc"] == pytest.approx(statistics.fmean(per_run), abs=1e-12)
    assert found["average"]["auroc_std"] == pytest.approx(statistics.stdev(per_run), abs=1e-12)
    assert set(found["average"]) == {*METRICS, *(f"{metric}_std" for metric in METRICS)}
    assert measured.average(["small"])["auroc"] == Measure(found["ood"]["small"]["auroc"], 0.0)


def test_draws_depend_on_name_and_seed_alone():
    protocol = Protocol()
    alone = as_json(measure("m", ID, {"a": LARGE}, protocol))["ood"]["a"]
    strange = {"z": LARGE + 1, "a": LARGE, "b": SMALL}
    among = as_json(measure("other", ID, strange, protocol))["ood"]["a"]
    assert alone == among
    assert as_json(measure("m", ID, {"b": LARGE}, protocol))["ood"]["b"] != alone
    assert as_json(measure("m", ID, {"a": LARGE}, replace(protocol, seed=1)))["ood"]["a"] != alone


def test_the_convention_is_that_of_the_protocol():
    for convention in ("first", "interpolated", "rank"):
        protocol = Protocol(convention=convention, tpr=0.9)
        found = measure("m", ID, {"s": SMALL}, protocol).evaluation.ood["s"]
        assert found == evaluate(ID, SMALL, 0.9, convention=convention)


@settings(max_examples=50)
@given(
    arrays(np.float64, st.integers(2, 20), elements=st.floats(-5, 5)),
    arrays(np.float64, st.integers(1, 60), elements=st.floats(-5, 5)),
    st.integers(1, 6),
)
def test_means_lie_within_the_draws_and_repeat(known, strange, number):
    protocol = Protocol(subsets=number)
    first, again = (measure("m", known, {"s": strange}, protocol) for _ in range(2))
    assert as_json(first) == as_json(again)
    for metric in METRICS:
        values = [getattr(run, metric) for run in first.runs["s"]]
        assert (
            min(values) - 1e-12 <= getattr(first.evaluation.ood["s"], metric) <= max(values) + 1e-12
        )
    assert first.evaluation.ood["s"].threshold in known


def reference_k(train, labels, aside, chosen, grid):
    """The mean AUROC of each k by scikit-learn's neighbours on unit vectors."""
    unit = train / np.linalg.norm(train, axis=1, keepdims=True)
    found = {k: [] for k in grid}
    for left in chosen:
        bank = unit[~aside & (labels != left)]
        unknown = labels[aside] == left
        if not unknown.any():
            continue
        distances, _ = NearestNeighbors(n_neighbors=max(grid)).fit(bank).kneighbors(unit[aside])
        for k in grid:
            found[k].append(roc_auc_score(~unknown, -distances[:, k - 1]))
    return {k: sum(values) / len(values) for k, values in found.items()}


def test_k_is_chosen_by_leaving_classes_out(data: Data):
    grid = [50, 1, 5]
    k, aurocs = choose_k(data.train, data.labels, grid, seed=4)
    rng = np.random.default_rng(4)
    chosen = np.sort(rng.choice(4, 4, replace=False))
    aside = np.zeros(240, dtype=bool)
    aside[rng.choice(240, 48, replace=False)] = True
    expected = reference_k(data.train, data.labels, aside, chosen, grid)
    assert aurocs == pytest.approx(expected, abs=1e-12)
    assert aurocs[k] == max(aurocs.values())
    assert choose_k(data.train, data.labels, grid, seed=4) == (k, aurocs)


def test_of_equal_ks_the_smallest_is_taken():
    labels = np.arange(90) % 3
    train = np.eye(3)[labels]
    assert choose_k(train, labels, [20, 2, 10])[0] == 2


def test_k_that_cannot_be_chosen(data: Data):
    with pytest.raises(
        InputError, match=r"KNN: 2 classes; choosing k takes at least 3, or pass k as a number"
    ):
        choose_k(data.train[data.labels < 2], data.labels[data.labels < 2], [5])
    with pytest.raises(
        InputError,
        match=r"KNN: no k of the grid \[500\] is at most \d+, the fewest rows that are left",
    ):
        choose_k(data.train, data.labels, [500])
    with pytest.raises(InputError, match="KNN: too few training rows to choose k on"):
        choose_k(np.eye(4), np.arange(4), [1])


def aurc_by_hand(scores, wrong):
    """The mean over every order of equal scores of the mean risk."""
    order = sorted(range(len(scores)), key=lambda i: -scores[i])
    groups = [list(group) for _, group in itertools.groupby(order, key=lambda i: scores[i])]
    totals = []
    for arrangement in itertools.product(*(itertools.permutations(group) for group in groups)):
        ranked = [i for group in arrangement for i in group]
        risks = [sum(wrong[i] for i in ranked[: n + 1]) / (n + 1) for n in range(len(ranked))]
        totals.append(sum(risks) / len(risks))
    return sum(totals) / len(totals)


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.5, 1.0, -math.inf]), st.booleans()),
        min_size=1,
        max_size=6,
    )
)
def test_aurc_is_the_mean_over_all_orders_of_equals(pairs):
    scores, wrong = [s for s, _ in pairs], [w for _, w in pairs]
    assert aurc(scores, wrong) == pytest.approx(aurc_by_hand(scores, wrong), abs=1e-12)
    best = min(
        aurc_by_hand(list(ranks), wrong) for ranks in itertools.permutations(range(len(wrong)))
    )
    assert e_aurc(scores, wrong) == pytest.approx(aurc_by_hand(scores, wrong) - best, abs=1e-12)
    assert e_aurc(scores, wrong) >= -1e-12


def test_aurc_does_not_depend_on_the_order_of_rows():
    scores = RNG.integers(0, 20, 500) / 10
    wrong = RNG.random(500) < 0.2
    order = RNG.permutation(500)
    assert aurc(scores, wrong) == pytest.approx(aurc(scores[order], wrong[order]), rel=1e-12)
    assert aurc(scores, np.zeros(500)) == 0.0 and aurc(scores, np.ones(500)) == 1.0
    assert aurc(np.zeros(500), wrong) == pytest.approx(wrong.mean())


@pytest.mark.parametrize("dtype", ["bool", "uint8", "uint64", "int8", "float16"])
def test_aurc_of_scores_of_any_type(dtype):
    scores, wrong = np.array([0, 1, 1, 0, 1]).astype(dtype), [1, 0, 0, 0, 1]
    for metric in (aurc, e_aurc):
        assert metric(scores, wrong) == metric(scores.astype(np.float64), wrong)


def test_aurc_of_tensors_that_require_gradients():
    torch = pytest.importorskip("torch")
    scores = torch.tensor([0.5, 0.25, 0.125], requires_grad=True)
    assert aurc(scores, torch.tensor([False, True, True])) == aurc([0.5, 0.25, 0.125], [0, 1, 1])


@pytest.mark.parametrize(
    ("scores", "wrong", "message"),
    [
        (
            [1.0],
            [True, False],
            r"aurc: scores of shape \(1,\), mistakes of \(2,\); pass one of each per row",
        ),
        ([], [], r"aurc: scores has shape \(0,\); pass a 1-D array of one or more scores"),
        ([np.nan, 1.0], [0, 1], r"aurc: scores has 1 NaN of 2 scores; fix or drop them"),
        (["a", "b"], [0, 1], r"aurc: scores has dtype <U1; pass real numbers"),
        ([1.0, 2.0], [0, 2], r"aurc: mistakes must be True or False; pass prediction != label"),
    ],
)
def test_aurc_of_bad_input(scores, wrong, message):
    with pytest.raises(InputError, match=message):
        aurc(scores, wrong)


def test_the_mean_of_numbers_without_a_deviation_has_none():
    row = Row.from_dict({"ood": {"a": {"auroc": 0.5}, "b": {"auroc": 0.75}}})
    assert row.means(["a", "b"]) == {"auroc": Measure(0.625)}
    row = Row.from_dict({"ood": {"a": {"auroc": 0.5, "auroc_std": 0.03}, "b": {"auroc": 0.75}}})
    assert row.means(["a", "b"]) == {"auroc": Measure(0.625, 0.015)}


@pytest.mark.parametrize(
    ("protocol", "message"),
    [
        ({"tpr": "most"}, "has a tpr of 'most'; run the benchmark again"),
        ({"tpr": 1.5}, "has a tpr of 1.5; run the benchmark again"),
        ({"convention": "newer"}, "has the convention 'newer', known are first, interpolated"),
        ({"convention": ["first"]}, "has the convention ['first'], known are"),
    ],
)
def test_a_protocol_that_is_not_known_is_not_taken_for_another(protocol, message):
    with pytest.raises(FormatError, match=re.escape(message)):
        Stated.from_dict(protocol)
    assert Stated.from_dict({}) == Stated()


def test_why_a_row_is_empty_is_known_by_its_tag_and_not_by_its_text():
    reasons = {
        "odin": Skipped("needs images", "run with data=DIR"),
        "svhn": Skipped("absent", "download it"),
        "knn": Skipped("failed", "absent: a detector's own words"),
    }
    record = Record("my", "Mine", skipped=reasons, absent=("svhn",))
    document = record.to_dict()
    assert document["skipped"] == {
        "odin": "needs images: run with data=DIR",
        "svhn": "absent: download it",
        "knn": "absent: a detector's own words",
    }
    assert Record.from_dict(document).skipped == reasons
    (table,) = tables_of(record)
    names = [cell.value for cell in table.columns[0].cells]
    assert names == ["odin: needs images", "svhn: absent", "knn: failed"]
