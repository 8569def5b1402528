"""The sentence of a benchmark, the intervals behind it, and why numbers differ from the paper's."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.shell import run

from typica.bench import Scores, builtin_features, headline, load_suite, run_experiment
from typica.bench._intervals import interval, rejected_rank, resampled
from typica.bench._reasons import experiment_reasons, reasons
from typica.bench._record import Record, Stated
from typica.metrics import evaluate


def record(results: dict, **more) -> Record:
    return Record.from_dict({"suite": "my", "title": "Mine", "results": results, **more})


def on(fpr: float, auroc: float, **more) -> dict:
    return {"fpr": fpr, "auroc": auroc, **more}


def test_it_says_what_was_tested_what_to_take_and_what_comes_through():
    found = record(
        {
            "ctm": {"ood": {"svhn": on(0.1, 0.95), "noise": on(0.3, 0.9)}},
            "knn": {"ood": {"svhn": on(0.4, 0.97), "noise": on(0.2, 0.99)}},
        },
        protocol={"tpr": 0.9},
    )
    assert str(headline(found)) == (
        "Mine: 2 methods were tested on 2 OOD sets (svhn, noise). Take ctm: it lets 20.0 % of the "
        "unknowns through at a false-alarm rate of 10 %, from 10.0 % of svhn to 30.0 % of noise."
    )


def test_an_interval_names_who_else_lies_in_it():
    average = on(0.2, 0.9, fpr_interval=[0.15, 0.25], auroc_interval=[0.88, 0.92])
    found = headline(
        record(
            {
                "ctm": {"ood": {"svhn": on(0.2, 0.9)}, "average": average},
                "knn": {"ood": {"svhn": on(0.24, 0.9)}},
                "msp": {"ood": {"svhn": on(0.26, 0.9)}},
            }
        )
    )
    assert found.rivals == {"knn": 0.24}
    assert "(95 % interval 15.0 to 25.0) at a false-alarm rate of 5 %." in str(found)
    assert str(found).endswith("Within that interval: knn (24.0 %).")


def test_the_papers_sets_lead_where_they_are_asked_for():
    found = record(
        {
            "ctm": {"ood": {"svhn": on(0.1, 0.9), "mine": on(0.9, 0.5)}},
            "knn": {"ood": {"svhn": on(0.2, 0.9), "mine": on(0.1, 0.9)}},
        },
        published={"ctm": {"svhn": on(0.1, 0.9), "average": {}}},
    )
    assert headline(found).take == "knn"
    assert headline(found, against="paper").take == "ctm"
    said = str(headline(found, against="paper"))
    assert "1 OOD set (svhn, which the paper has too)" in said


def test_little_is_said_of_little():
    one = record({"ctm": {"ood": {"svhn": {"auroc": 0.99}}}})
    assert str(headline(one)) == (
        "Mine: 1 method was tested on 1 OOD set (svhn). ctm: it reaches an AUROC of 99.0 %."
    )
    assert headline(record({})) is None
    assert headline(record({"cm": {"ood": {}}}, experiment="ablation")) is None


@pytest.mark.parametrize("convention", ["first", "rank", "interpolated"])
def test_intervals_are_those_of_a_bootstrap_that_draws_rows(convention):
    """Against `evaluate`, which draws every row and measures again."""
    rng = np.random.default_rng(0)
    test, strange = rng.normal(size=2000) + 2, rng.normal(size=1500)
    drawn = resampled({"ctm": Scores(test, {"a": strange})}, Stated(convention=convention, seed=0))
    wanted = evaluate(test, strange, convention=convention, bootstrap=1000).intervals
    for metric, tolerance in (("fpr", 0.012), ("auroc", 0.002)):
        assert interval(drawn["ctm"]["a"][metric]) == pytest.approx(wanted[metric], abs=tolerance)


def test_an_interval_depends_on_nothing_else_that_is_measured():
    rng = np.random.default_rng(0)
    one, other = (
        Scores(rng.normal(size=90) + 2, {name: rng.normal(size=80) for name in "ab"})
        for _ in range(2)
    )
    alone = resampled({"ctm": one._replace(ood={"b": one.ood["b"]})}, Stated(seed=1))
    together = resampled({"msp": other, "ctm": one}, Stated(seed=2))
    for metric in ("fpr", "auroc"):
        np.testing.assert_allclose(
            alone["ctm"]["b"][metric], together["ctm"]["b"][metric], rtol=0, atol=1e-12
        )


def test_the_rank_of_the_threshold_is_the_metrics_own():
    scores = np.arange(37.0)
    for convention in ("first", "rank"):
        for tpr in (0.5, 0.9, 0.95, 1.0):
            threshold = evaluate(scores, scores, tpr, convention=convention).threshold
            assert rejected_rank(37, Stated(tpr, convention)) == threshold


def test_a_run_has_intervals_around_its_numbers_and_its_file_keeps_them():
    suite = load_suite("digits")
    made = run_experiment("main", suite, builtin_features(suite), {"ctm": {}, "msp": {}}).record
    for row in made.rows.values():
        for measures in (row.average, row.near, row.far, *(row.on(name) for name in row.ood)):
            for metric in ("fpr", "auroc"):
                low, high = measures[metric].interval
                assert 0 <= low <= measures[metric].value <= high <= 1
        low, high = row.average["auroc"].interval
        assert high - low > 4 * row.average["auroc"].std  # the deviation is no error of the result
    assert Record.from_dict(made.to_dict()) == made


def test_reasons_name_what_is_known():
    published = {
        "mahalanobis": {"svhn": on(0.1, 0.98), "dtd": on(0.2, 0.95), "average": {}},
        "msp": {"svhn": on(0.5, 0.9), "dtd": on(0.5, 0.9), "average": {}},
    }
    near = {"fpr_interval": [0.19, 0.31], "auroc_interval": [0.8, 0.99]}
    ood = {"svhn": on(0.2, 0.9, **near), "dtd": on(0.3, 0.9, **near)}
    found = record(
        {"mahalanobis": {"ood": ood}, "msp": {"ood": {"svhn": on(0.1, 0.9), "dtd": on(0.5, 0.9)}}},
        published=published,
        n={"test": 100, "svhn": 1000, "dtd": 5640},
    )
    said = reasons(found, "mahalanobis")
    assert "four layers" in said[0] and said[1].endswith("here: svhn (1,000 of 26,032 images).")
    assert (
        "FPR95, svhn: 20.00; other inputs of the same kind would give 19.00 to 31.00 (95 %). The "
        "published 10.00 lies outside." in said
    )
    assert any("AUROC, dtd: 90.00" in one and one.endswith("95.00 lies within.") for one in said)
    whole = record({"msp": {"ood": {"mine": on(0.1, 0.9)}}})
    assert reasons(whole, "msp") == [
        "The weights: they are from another training, unless they are the paper's own."
    ]


def test_reasons_of_the_other_experiments():
    found = record(
        {"cm": {"ood": {"svhn": on(0.2, 0.9)}}},
        experiment="ablation",
        accuracy={"cm": 0.9},
        n={"test": 1000, "svhn": 10},
        published={"cm": {"average": {"auroc": 0.96}, "common": {"sets": ["svhn"], "of": 6}}},
    )
    covers, accuracy = experiment_reasons(found, "cm")
    assert covers == "The printed mean covers the paper's 6 OOD sets, ours svhn."
    assert accuracy == "Accuracy on 1,000 test inputs: other ones would give 87.97 to 91.79 %."


def test_the_terminal_begins_with_it(capsys):
    out = run(capsys, "bench", "digits", "--methods", "ctm,msp")
    said = " ".join(out.split())
    assert said.startswith(
        "Handwritten digits 0-6, small convolutional network: 2 methods were tested on"
    )
    assert "Take ctm: it lets 19.4 % of the unknowns through (95 % interval " in said
    assert " at a false-alarm rate of 5 %, from " in said
