"""The figures are there, are shown, follow both themes, and say what was measured."""

from __future__ import annotations

import re

import charts
import measure_costs
import measure_methods
import pytest
from helpers.pages import DOCS, ROOT

import typica

FIGURES = sorted((DOCS / "figures").rglob("*.svg"))
COLOUR = re.compile(r'\b(?:fill|stroke)="([^"]*)"')


def test_every_figure_that_scripts_draw_is_there_and_on_a_page():
    pages = "".join(path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md"))
    for name in charts.FIGURES:
        assert (DOCS / "figures" / f"{name}.svg").exists(), (
            f"run: python docs/make_figures.py {name}"
        )
        assert f"figures/{name}.svg)" in pages, f"no page shows {name}.svg"


@pytest.mark.parametrize("path", FIGURES, ids=lambda path: path.stem)
def test_a_figure_has_the_colours_of_both_themes_and_no_others(path):
    text = path.read_text(encoding="utf-8")
    assert "prefers-color-scheme:dark" in text and "<title>" in text
    used = set(COLOUR.findall(text)) - {"none"}
    assert used and all(colour.startswith("var(--figure-") for colour in used)
    assert not re.search(r"(?:href|src)=", text)


def test_every_detector_has_its_cost():
    measured = {line["method"] for line in measure_costs.read_table()}
    assert measured == set(typica.list_detectors()) - measure_costs.LEFT_OUT


def test_quality_beside_cost_is_that_of_the_methods_pages():
    # `compare` fits in a stream: NNGuide draws its sample of rows otherwise there.
    apart = {"nnguide": 0.5}
    elsewhere = {
        line["method"]: float(line["auroc"])
        for line in measure_methods.read_table()
        if (line["suite"], line["set"]) == ("cifar10-densenet", "mean")
    }
    for line in measure_costs.read_table():
        difference = abs(float(line["auroc"]) - elsewhere[line["method"]])
        assert difference < apart.get(line["method"], 0.05), line["method"]


def test_the_plot_of_cost_and_quality_is_current():
    drawn = (DOCS / "figures" / "pareto.svg").read_text(encoding="utf-8")
    assert charts.pareto().text() == drawn, "run: python docs/make_figures.py pareto"


def test_the_edge_of_the_plot_holds_those_that_no_cheaper_one_beats():
    points = {"a": (1.0, 90.0), "b": (2.0, 89.0), "c": (3.0, 95.0), "d": (1.0, 80.0)}
    assert charts._front(points) == ["a", "c"]


def test_the_costs_of_the_readme_are_those_that_were_measured():
    costs = {line["method"]: float(line["microseconds"]) for line in measure_costs.read_table()}
    text = (ROOT / "README.md").read_text(encoding="utf-8").replace("*", "")
    rows = re.findall(r"^\| (\w+)[^|]*\|(?: [^|]*\|){6} ([\d.]+) \|$", text, re.MULTILINE)
    assert len(rows) == 6
    for name, figure in rows:
        digits = 1 if float(figure) < 10 else 0
        assert float(figure) == round(costs[name.lower()], digits), name
