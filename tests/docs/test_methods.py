"""The pages of the methods are what their files say."""

from __future__ import annotations

import inspect
import re
import sys
import tomllib

import make_methods
import pytest
from helpers.pages import DOCS

import typica

DETECTORS, RECTIFIERS = make_methods.detectors(), make_methods.rectifiers()
METHODS = [*DETECTORS, *RECTIFIERS]
HOW = "run: python docs/make_methods.py"


@pytest.fixture(scope="module")
def pages():
    return make_methods.pages()


@pytest.fixture(scope="module")
def overview(pages):
    return pages["methods.md"]


def test_the_pages_are_current(pages):
    written = {path.relative_to(DOCS).as_posix() for path in (DOCS / "methods").glob("*.md")}
    assert written == set(pages) - {"methods.md"}, HOW
    for name, text in pages.items():
        assert (DOCS / name).read_text(encoding="utf-8") == text, f"{name} is out of date; {HOW}"


@pytest.mark.parametrize("cls", METHODS, ids=lambda cls: cls.kind)
def test_every_method_has_a_page_and_a_figure(pages, overview, cls):
    page = pages[f"methods/{cls.kind}.md"]
    assert f"\n# {cls.__name__}\n" in page and f"by name `{cls.kind}`" in page
    assert cls.tags.reference.replace("|", "\\|") in page
    assert f"(../figures/levels/{cls.kind}.svg)" in page, (
        f"no figure; run: python docs/make_figures.py {cls.kind}, then python docs/make_methods.py"
    )
    assert overview.count(f"| [{cls.__name__}](methods/{cls.kind}.md) |") == 3


def texts() -> dict[str, str]:
    """Return the docstrings that hold formulas, by the name of the method."""
    found = {cls.kind: inspect.getdoc(sys.modules[cls.__module__]) for cls in METHODS}
    for kind, network in make_methods.OVER_NETWORKS.items():
        found[kind] = make_methods._module_text(network)
    return found


@pytest.mark.parametrize(("kind", "text"), texts().items())
def test_every_formula_is_typeset_as_it_stands_in_the_docstring(kind, text):
    table = tomllib.loads(make_methods.FORMULAS.read_text(encoding="utf-8"))
    entries = [entry["plain"].strip() for entry in table.get(kind, [])]
    formulas = [inspect.cleandoc(formula) for formula in make_methods.formulas_of(text)]
    assert entries == formulas, (
        f"docs/formulas.toml has not these formulas of {kind}: put them there as `plain`, with the "
        f"same in LaTeX as `tex`, then {HOW}"
    )


def test_no_formula_is_of_a_method_that_is_gone():
    assert set(make_methods.read_formulas()) <= set(texts())


def row(overview, name):
    lines = overview.splitlines()
    return next(line for line in lines if line.startswith(f"| [{name}]")).split(" | ")[1:]


def test_the_overview_tells_what_methods_need(overview):
    assert row(overview, "CTM") == ["features", "used", "yes", "no", "yes", "yes", "yes |"]
    assert row(overview, "CW") == ["features and head", "no", "none", "no", "no", "yes", "yes |"]
    assert row(overview, "MSP")[0] == "features or logits"
    assert row(overview, "DICE")[0] == "features and head"


@pytest.mark.parametrize("cls", DETECTORS, ids=lambda cls: cls.kind)
def test_the_overview_tells_which_detectors_keep_training_rows(overview, cls):
    keeps = ("knn", "lof", "nnguide", "quorum", "relation")
    assert row(overview, cls.__name__)[3] == ("yes" if cls.kind in keeps else "no")


def test_pages_tell_what_parameters_may_be(pages):
    assert "| `k` | `50` | an integer of at least 1 |" in pages["methods/knn.md"]
    assert "| `metric` | `'inner'` | 'inner' or 'cosine' |" in pages["methods/she.md"]


def test_pages_tell_what_was_measured_of_every_method(pages, overview):
    figures = make_methods.read_lines(make_methods.MEASURED)
    assert {line["method"] for line in figures} == {cls.kind for cls in METHODS}
    ctm = next(line for line in figures if (line["method"], line["set"]) == ("ctm", "svhn"))
    assert (ctm["auroc"], ctm["fpr95"]) == ("99.07", "5.39")  # README of the real features: CTM
    assert "| svhn | 99.07 | 5.39 | " in pages["methods/ctm.md"]
    assert "| [CTM](methods/ctm.md) | 87.40 / 58.14 | 99.07 / 5.39 |" in overview
    for cls in METHODS:
        assert "## When it works, and when not" in pages[f"methods/{cls.kind}.md"]


def test_ranks_count_the_better_ones(pages):
    figures = make_methods.read_lines(make_methods.MEASURED)
    svhn = [line for line in figures if line["set"] == "svhn"]
    better = [line for line in svhn if float(line["auroc"]) > 99.07]
    assert f"| 99.07 | 5.39 | {1 + len(better)} of {len(svhn)} |" in pages["methods/ctm.md"]
    assert "Behind MSP, the baseline, on cifar100." in pages["methods/ctm.md"]


def test_what_others_call_a_method_is_here():
    lines = make_methods.read_lines(make_methods.ELSEWHERE)
    assert all(bool(line["here"]) != bool(line["why"]) for line in lines)
    for line in lines:
        for code in re.findall(r"`([^`]*)`", line["here"]):
            name = re.match(r"(?:nets\.)?(\w+)", code)[1]
            assert hasattr(typica.nets if code.startswith("nets.") else typica, name), code
    theirs = " ".join(line["pytorch_ood"] for line in lines)
    for name in ("MaxSoftmax", "MCD", "NACUE", "RankFeat", "WeightedEBO", "MultiMahalanobis"):
        assert name in theirs.replace(",", "").split()


def test_pages_tell_of_what_needs_the_network(pages, overview):
    assert "Dominant Activations and Variance" in pages["methods/davis.md"]
    for line in make_methods.read_lines(make_methods.NETWORKS):
        assert f"| {line['method']} |" in overview
    measured = [
        name for network in make_methods.OVER_NETWORKS.values() for name in network.measured
    ]
    lines = make_methods.read_lines(make_methods.NETWORKS)
    assert set(measured) == {line["method"] for line in lines}
