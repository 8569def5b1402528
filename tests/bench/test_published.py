"""The paper's numbers as the package ships them."""

from __future__ import annotations

import csv
from importlib.resources import files

import pytest

from typica.bench import published as paper
from typica.bench._printed import Common
from typica.detectors import list_detectors

CIFAR10, CIFAR100 = ("DenseNet-101", "CIFAR-10"), ("DenseNet-101", "CIFAR-100")
SIX = {"svhn", "lsun-c", "lsun-r", "isun", "textures", "places365"}


def test_every_number_of_the_file_is_reached():
    rows = list(
        csv.DictReader((files("typica.bench.publications") / "paper.csv").read_text().splitlines())
    )
    assert len(rows) == 70 + 50 + 84 + 84 + 28 + 20 + 24
    reached = 0
    for row in rows:
        key, percent = (row["model"], row["id_set"]), float(row["percent"])
        if row["table"] == "cosine-ablation":
            found = paper.ablation(*key)[row["method"].lower()][row["metric"].lower()]
        elif row["table"] == "cifar-layers":
            found = paper.layers(*key)[paper.LAYERS[row["method"]]][paper.HEADINGS[row["metric"]]]
        else:
            method = paper.publications()["paper"].methods[row["method"]]
            found = paper.published(*key)[method][paper.canonical(row["ood_set"])][
                paper.HEADINGS[row["metric"]]
            ]
        assert round(100 * found, 2) == percent, row
        reached += 1
    assert reached == len(rows)


def test_names_are_ours():
    assert set(paper.publications()["paper"].methods.values()) - {"odin"} <= set(list_detectors())
    assert set(paper.published(*CIFAR10)["ctm"]) == SIX | {"average"}
    assert set(paper.published("ResNet-50", "ImageNet-1k")["knn"]) == {
        "inaturalist", "sun", "places365", "textures", "average",
    }  # fmt: skip
    assert list(paper.layers(*CIFAR10)) == ["conv1", "trans1", "trans2", "block3", "penultimate"]
    assert paper.published("AlexNet", "CIFAR-10") == {} == paper.ablation("AlexNet", "CIFAR-10")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("SVHN", "svhn"), ("Textures", "textures"), ("texture", "textures"), ("dtd", "textures"),
        ("LSUN-C", "lsun-c"), ("LSUN_crop", "lsun-c"), ("lsun-resize", "lsun-r"), ("LSUN", "lsun"),
        ("iSUN", "isun"), ("Places", "places365"), ("Places_365", "places365"),
        ("iNaturalist", "inaturalist"), ("SUN", "sun"), ("my-own Set", "my-own set"),
    ],
)  # fmt: skip
def test_names_of_ood_sets(name, expected):
    assert paper.canonical(name) == expected


def test_published_under_other_names_keeps_nothing_else():
    found = paper.published_as(*CIFAR10, ["DTD", "SVHN", "mine"])
    assert found["ctm"] == {
        "DTD": {"fpr": 0.1762, "auroc": 0.967},
        "SVHN": {"fpr": 0.0514, "auroc": 0.9908},
        "average": {"fpr": 0.1823, "auroc": 0.964},
    }
    assert found["max_logit"] == {"average": {"fpr": 0.2644, "auroc": 0.9447}}


def test_an_average_is_compared_over_the_sets_that_both_have():
    some = paper.comparable_average(*CIFAR10, "ctm", ["svhn", "cifar100", "dtd"])
    assert some.sets == ("svhn", "dtd")
    assert some.numbers["auroc"] == pytest.approx((0.9908 + 0.9670) / 2)
    assert some.numbers["fpr"] == pytest.approx((0.0514 + 0.1762) / 2)
    assert paper.comparable_average(*CIFAR10, "max_logit", ["svhn", "dtd"]) == Common()
    assert paper.comparable_average(*CIFAR10, "ctm", ["mine"]) == Common()
    # All six: the printed average itself, also where the paper printed nothing else.
    for method, auroc in (("ctm", 0.964), ("max_logit", 0.9447)):
        assert paper.comparable_average(*CIFAR10, method, sorted(SIX)).numbers["auroc"] == auroc
    with_more = paper.comparable_average(*CIFAR10, "ctm", [*sorted(SIX), "cifar100"])
    assert (with_more.sets, with_more.numbers["auroc"]) == (tuple(sorted(SIX)), 0.964)
    assert with_more.to_dict() == {"sets": sorted(SIX), "fpr": 0.1823, "auroc": 0.964}


@pytest.mark.parametrize(
    "key", [CIFAR10, CIFAR100, ("ResNet-50", "ImageNet-1k"), ("MobileNetV2", "ImageNet-1k")]
)
def test_which_printed_averages_are_not_the_mean_of_their_row(key):
    wrong = {}
    for method in paper.publications()["paper"].methods.values():
        by_set = paper.published(*key).get(method, {})
        sets = [numbers for name, numbers in by_set.items() if name != "average"]
        for metric in ("fpr", "auroc"):
            if sets:
                mean = sum(numbers[metric] for numbers in sets) / len(sets)
                if abs(mean - by_set["average"][metric]) > 0.00011:
                    wrong[method, metric] = round(100 * mean, 2)
    expected = {
        CIFAR100: {("mahalanobis", "fpr"): 50.14, ("mahalanobis", "auroc"): 85.03},
    }
    assert wrong == expected.get(key, {})


def test_the_ablations_standard_auroc_is_no_row_of_the_main_table():
    for key in (CIFAR10, CIFAR100):
        rows = {by_set["average"]["auroc"] for by_set in paper.published(*key).values()}
        assert paper.ablation(*key)["standard"]["auroc"] not in rows
        assert (
            paper.ablation(*key)["cm"]["auroc"] == paper.published(*key)["ctm"]["average"]["auroc"]
        )
