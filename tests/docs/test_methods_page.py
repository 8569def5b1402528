"""The page of all methods is what their files say."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

import typica
from typica.detectors import detector_class, list_detectors
from typica.rectify import list_rectifiers, rectifier_class

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def generator():
    spec = importlib.util.spec_from_file_location("make_methods", DOCS / "make_methods.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_current(generator):
    written = (
        (DOCS / "methods.md").read_text(encoding="utf-8") if (DOCS / "methods.md").exists() else ""
    )
    assert written == generator.page(), (
        "docs/methods.md is out of date; run: python docs/make_methods.py"
    )


def test_the_page_tells_of_every_method(generator):
    page = generator.page()
    for cls in [*map(detector_class, list_detectors()), *map(rectifier_class, list_rectifiers())]:
        assert page.count(f"| [{cls.__name__}](#{cls.__name__.lower()}) |") == 3
        assert f"\n### {cls.__name__}\n" in page and f"by name `{cls.kind}`" in page
        assert cls.tags.reference.replace("|", "\\|") in page


def test_the_page_tells_what_methods_need(generator):
    lines = generator.page().splitlines()

    def row(name):
        return next(line for line in lines if line.startswith(f"| [{name}]")).split(" | ")[1:]

    assert row("CTM") == ["features", "used", "yes", "no", "yes", "yes", "yes |"]
    assert row("CW") == ["features and head", "no", "none", "no", "no", "yes", "yes |"]
    assert row("MSP")[0] == "features or logits"
    assert row("DICE")[0] == "features and head"


@pytest.mark.parametrize("name", list_detectors())
def test_the_page_tells_which_detectors_keep_training_rows(generator, name):
    cls = detector_class(name)
    line = next(
        row for row in generator.page().splitlines() if row.startswith(f"| [{cls.__name__}]")
    )
    keeps = ("knn", "lof", "nnguide", "quorum", "relation")
    assert line.split(" | ")[4] == ("yes" if name in keeps else "no")


def test_the_page_tells_what_parameters_may_be(generator):
    page = generator.page()
    assert "| `k` | `50` | an integer of at least 1 |" in page
    assert "| `metric` | `'inner'` | 'inner' or 'cosine' |" in page


def test_the_page_tells_what_was_measured_of_every_method(generator):
    figures = generator.read_lines(generator.MEASURED)
    names = [*list_detectors(), *list_rectifiers()]
    assert {line["method"] for line in figures} == set(names)
    page = generator.page()
    assert page.count("Measured here, AUROC / FPR95") == len(names)
    ctm = next(line for line in figures if (line["method"], line["set"]) == ("ctm", "svhn"))
    assert (ctm["auroc"], ctm["fpr95"]) == ("99.07", "5.39")  # README of the real features: CTM
    assert f"svhn {ctm['auroc']} / {ctm['fpr95']}" in page


def test_what_others_call_a_method_is_here(generator):
    lines = generator.read_lines(generator.ELSEWHERE)
    assert all(bool(line["here"]) != bool(line["why"]) for line in lines)
    for line in lines:
        for code in re.findall(r"`([^`]*)`", line["here"]):
            name = re.match(r"(?:nets\.)?(\w+)", code)[1]
            assert hasattr(typica.nets if code.startswith("nets.") else typica, name), code
    theirs = " ".join(line["pytorch_ood"] for line in lines)
    for name in ("MaxSoftmax", "MCD", "NACUE", "RankFeat", "WeightedEBO", "MultiMahalanobis"):
        assert name in theirs.replace(",", "").split()


def test_the_page_tells_of_what_needs_the_network(generator):
    page = generator.page()
    assert "\n### AdaSCALE\n" in page and "\n### Gram\n" in page
    assert "Dominant Activations and Variance" in page
    methods = {line["method"] for line in generator.read_lines(generator.NETWORKS)}
    assert all(f"| {name} |" in page for name in methods) and "Energy" in methods
