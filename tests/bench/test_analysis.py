"""The analysis of influence, against float64 loops and numerical derivatives."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from helpers.data import make_data
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import roc_auc_score

from typica import CTM, Head, InfluenceKernel
from typica.bench import FeatureSuite, Workbench
from typica.bench._analysis import analyse
from typica.bench._influence import divergence, kernel, moved, uncertainty_gradient
from typica.bench._toy_experiment import STEPS
from typica.errors import InputError

DATA = make_data(n=120, m=6, C=3, seed=1)
RNG = np.random.default_rng(2)
HEAD = Head(RNG.normal(size=(3, 6)), RNG.normal(size=3))
MEANS = np.stack([DATA.train[DATA.labels == k].mean(axis=0) for k in range(3)])


def softmax(logits):
    weights = [math.exp(x - max(logits)) for x in logits]
    return [w / sum(weights) for w in weights]


def probabilities(z, weight=HEAD.weight, bias=HEAD.bias):
    return softmax(
        [
            sum(float(w) * float(x) for w, x in zip(row, z, strict=True)) + float(b)
            for row, b in zip(weight, bias, strict=True)
        ]
    )


def cosine(a, b):
    return float(np.dot(a, b)) / math.sqrt(float(np.dot(a, a)) * float(np.dot(b, b)))


def kl_from_uniform(p):
    return sum(math.log(1 / len(p) / x) / len(p) for x in p)


def analysed(sets: FeatureSuite) -> dict:
    """The analysis as JSON."""
    return analyse(Workbench(sets)).to_dict()


@pytest.fixture(scope="module")
def sets() -> FeatureSuite:
    test_labels = np.arange(len(DATA.test)) % 3
    return FeatureSuite(
        "toy", "Toy", DATA.train, DATA.labels, None, None, DATA.test, test_labels,
        {"odd": DATA.ood, "longer": 2 * DATA.test}, frozenset({"longer"}),
        HEAD.weight, HEAD.bias, HEAD.classes, None,
    )  # fmt: skip


@pytest.fixture(scope="module")
def analysis(sets):
    return analysed(sets)


def test_the_kernel_is_the_cosine_of_two_gradients():
    found = kernel(DATA.ood, MEANS, HEAD)
    u = 1 / 3
    for i, z in enumerate(DATA.ood):
        p = probabilities(z)
        k = p.index(max(p))
        at_z = np.outer(np.array(p) - u, z).ravel()
        at_mean = np.outer(np.array(probabilities(MEANS[k])) - u, MEANS[k]).ravel()
        assert found.exact[i] == pytest.approx(cosine(at_z, at_mean), abs=1e-12)
        angle = cosine(MEANS[k], z)
        one_hot = np.eye(3)[k] - u
        assert found.one_hot[i] == pytest.approx(
            cosine(np.array(p) - u, one_hot) * angle, abs=1e-12
        )
        squares = sum(x * x for x in p)
        assert found.printed[i] == pytest.approx(
            (p[k] - u) / ((1 - u) * (squares - u)) * angle, rel=1e-9
        )
        assert found.cosine[i] == pytest.approx(angle, abs=1e-12)


@pytest.mark.parametrize("exact", [True, False])
def test_the_kernel_agrees_with_the_detector(exact):
    detector = InfluenceKernel(HEAD, exact=exact).fit(DATA.train, DATA.labels)
    found = kernel(DATA.ood, MEANS, HEAD)
    np.testing.assert_allclose(
        found.exact if exact else found.one_hot, detector.score_samples(DATA.ood), atol=1e-12
    )


def test_where_a_gradient_is_zero_so_is_the_kernel():
    flat = Head(np.eye(3, 6))
    found = kernel(np.vstack([np.zeros(6), np.ones(6)]), MEANS, flat)
    for values in (found.exact, found.one_hot, found.printed):
        np.testing.assert_array_equal(values, [0, 0])


def test_the_gradient_is_that_of_the_divergence():
    gradient = uncertainty_gradient(MEANS, HEAD)
    h = 1e-6
    for c in range(3):
        for j in range(6):
            values = []
            for sign in (1, -1):
                W = HEAD.weight.copy()
                W[c, j] += sign * h
                values.append(sum(kl_from_uniform(probabilities(mean, W)) for mean in MEANS) / 3)
            assert gradient[c, j] == pytest.approx((values[0] - values[1]) / (2 * h), abs=1e-6)


def test_divergence_is_exact_far_out():
    L = np.array([[0.0, 1.0, 2.0], [1000.0, 0.0, 0.0], [3.0, 3.0, 3.0]])
    expected = [kl_from_uniform(softmax([0.0, 1.0, 2.0])), 2000 / 3 - math.log(3), 0.0]
    np.testing.assert_allclose(divergence(L), expected, atol=1e-12)


def test_how_far_predictions_move():
    step = RNG.normal(size=(3, 6)) / 10
    found = moved(DATA.ood, HEAD, step)
    for i, z in enumerate(DATA.ood[:20]):
        before, after = probabilities(z), probabilities(z, HEAD.weight + step)
        assert found.variation[i] == pytest.approx(
            sum(abs(a - b) for a, b in zip(after, before, strict=True)) / 2, abs=1e-12
        )
        assert found.uncertainty[i] == pytest.approx(
            kl_from_uniform(before) - kl_from_uniform(after), abs=1e-10
        )


def test_the_step_raises_uncertainty_at_the_means_and_the_papers_sign_lowers_it(analysis):
    at_means = analysis["steps"]["at_means"]
    falling = [at_means["before"], *at_means["after"][:6]]
    assert all(later < earlier for earlier, later in itertools.pairwise(falling))
    gradient = uncertainty_gradient(MEANS, HEAD)
    along = (
        sum(kl_from_uniform(probabilities(mean, HEAD.weight + 0.01 * gradient)) for mean in MEANS)
        / 3
    )
    assert along > at_means["before"]


def test_curves_are_means_over_each_set(sets, analysis):
    gradient = uncertainty_gradient(MEANS, HEAD)
    unit = (
        -gradient / math.sqrt(float((gradient**2).sum())) * math.sqrt(float((HEAD.weight**2).sum()))
    )
    assert set(analysis["curves"]) == {"variation", "uncertainty"}
    for quantity, curve in analysis["curves"].items():
        assert curve["x"] == list(STEPS) == analysis["steps"]["sizes"]
        assert list(curve["y"]) == ["test", "odd", "longer"]
        for i in (0, 6):
            values = {
                name: getattr(moved(Z, HEAD, STEPS[i] * unit), quantity)
                for name, Z in {"test": sets.test, **sets.ood}.items()
            }
            for name, line in curve["y"].items():
                assert line[i] == pytest.approx(float(np.mean(values[name])), abs=1e-12)
            target = np.r_[np.ones(len(values["test"])), np.zeros(len(values["odd"]))]
            expected = roc_auc_score(target, np.r_[values["test"], values["odd"]])
            assert analysis["steps"]["auroc"][quantity]["odd"][i] == pytest.approx(
                expected, abs=1e-12
            )


def test_correlations_and_aurocs_of_the_kernel(sets, analysis):
    found = {name: kernel(Z, MEANS, HEAD) for name, Z in {"test": sets.test, **sets.ood}.items()}
    for form in ("exact", "one_hot", "printed"):
        report = analysis["kernel"][form]
        odd, test = getattr(found["odd"], form), getattr(found["test"], form)
        expected = roc_auc_score(np.r_[np.ones(len(test)), np.zeros(len(odd))], np.r_[test, odd])
        assert report["auroc"]["odd"] == pytest.approx(expected, abs=1e-12)
        assert report["correlation"]["odd"]["pearson"] == pytest.approx(
            pearsonr(odd, found["odd"].cosine)[0], abs=1e-9
        )
        everything = [
            np.concatenate([getattr(k, f) for k in found.values()]) for f in (form, "cosine")
        ]
        assert report["correlation"]["all"]["spearman"] == pytest.approx(
            spearmanr(*everything)[0], abs=1e-9
        )
        assert report["max"] == everything[0].max() and report["min"] == everything[0].min()
    assert "correlation" not in analysis["kernel"]["cosine"]


def test_predictions_at_the_means(analysis):
    found = analysis["one_hot"]
    for k, entry in enumerate(found["classes"]):
        p = probabilities(MEANS[k])
        assert entry["class"] == k and entry["probability"] == pytest.approx(p[k], abs=1e-12)
        rest = [x if c != k else -1 for c, x in enumerate(p)]
        assert (entry["runner_up"], entry["runner_up_probability"]) == (
            rest.index(max(rest)),
            pytest.approx(max(rest)),
        )
        assert entry["entropy"] == pytest.approx(-sum(x * math.log(x) for x in p), abs=1e-12)
    own = [entry["probability"] for entry in found["classes"]]
    assert found["probability"] == {
        "mean": pytest.approx(sum(own) / 3),
        "min": min(own),
        "max": max(own),
    }
    assert found["predicted"] == pytest.approx(
        np.mean([np.argmax(probabilities(m)) == k for k, m in enumerate(MEANS)])
    )


def test_what_catches_a_set(sets, analysis):
    motivation = analysis["motivation"]
    norms = {
        name: [math.sqrt(sum(x * x for x in z)) for z in Z]
        for name, Z in {"test": sets.test, **sets.ood}.items()
    }
    target = np.r_[np.ones(len(sets.test)), np.zeros(len(sets.ood["odd"]))]
    assert motivation["auroc"]["norm"]["odd"] == pytest.approx(
        roc_auc_score(target, norms["test"] + norms["odd"])
    )
    ctm = CTM().fit(DATA.train, DATA.labels)
    cosines = [*ctm.score_samples(sets.test), *ctm.score_samples(sets.ood["odd"])]
    assert motivation["auroc"]["cosine"]["odd"] == pytest.approx(roc_auc_score(target, cosines))
    logits = [
        max(row)
        for Z in (sets.test, sets.ood["odd"])
        for row in (Z @ HEAD.weight.T + HEAD.bias).tolist()
    ]
    assert motivation["auroc"]["logit"]["odd"] == pytest.approx(roc_auc_score(target, logits))
    # Twice the length, and the same direction: the cosine alone cannot tell.
    assert motivation["auroc"]["cosine"]["longer"] == pytest.approx(0.5, abs=1e-3)
    assert motivation["auroc"]["norm"]["longer"] < 0.2
    for name in sets.ood:
        best = max(
            motivation["auroc"], key=lambda quantity, name=name: motivation["auroc"][quantity][name]
        )
        assert motivation["caught_by"][name] == {
            "by": best,
            "auroc": motivation["auroc"][best][name],
        }


def test_histograms_count_every_input_once(sets, analysis):
    for chart in analysis["histograms"].values():
        for name, Z in {"test": sets.test, **sets.ood}.items():
            assert sum(chart["counts"][name]) == len(Z)
            assert len(chart["edges"]) == len(chart["counts"][name]) + 1
            low, *_, high = chart["quantiles"][name]
            assert (
                chart["edges"][0] <= low <= chart["mean"][name] <= chart["edges"][-1]
                and low <= high
            )


def test_it_is_json_and_the_same_twice(sets, analysis):
    assert json.dumps(analysis, allow_nan=False) == json.dumps(analysed(sets), allow_nan=False)


def test_classes_in_another_order_than_the_labels(sets, analysis):
    order = [2, 0, 1]
    turned = replace(
        sets,
        head_weight=HEAD.weight[order],
        head_bias=HEAD.bias[order],
        classes=HEAD.classes[order],
    )
    again = analysed(turned)
    assert again["kernel"]["exact"]["auroc"] == pytest.approx(analysis["kernel"]["exact"]["auroc"])
    assert [entry["class"] for entry in again["one_hot"]["classes"]] == order


def test_ctm_scores_each_set_once_for_all_experiments(sets, monkeypatch):
    scored = []
    score = CTM.score_samples

    def counting(detector, X):
        scored.append(len(X))
        return score(detector, X)

    monkeypatch.setattr(CTM, "score_samples", counting)
    workbench = Workbench(sets)
    by_ctm = workbench.scored({"ctm": {}})["ctm"].scores
    once = [len(by_ctm.test), *map(len, by_ctm.ood.values())]
    assert scored == once
    analyse(workbench)
    assert scored == once


def test_scores_that_fail_are_told(sets):
    strange = replace(sets, ood={**sets.ood, "bad": np.full((2, 6), np.nan)})
    with pytest.raises(InputError, match=r"^analysis: CTM\.score_samples: .*NaN"):
        analysed(strange)


def test_constant_values_have_no_correlation(sets):
    one = replace(sets, ood={"one": DATA.ood[:1]}, near=frozenset())
    assert analysed(one)["kernel"]["exact"]["correlation"]["one"] == {
        "pearson": None,
        "spearman": None,
    }


def test_what_cannot_be_analysed(sets):
    with pytest.raises(
        InputError, match=r"analysis: needs a head; give head\.weight\.npy and head\.bias\.npy"
    ):
        analysed(replace(sets, head_weight=None))
    flat = replace(sets, head_weight=np.zeros((3, 6)), head_bias=np.zeros(3))
    with pytest.raises(
        InputError, match="predictions at the class means are uniform already; check the head"
    ):
        analysed(flat)
