"""The snippets of the README run as they stand."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pages
import pytest
from helpers.pages import ROOT
from helpers.snippets import write_features, write_photos

import typica

README = pages.read((ROOT / "README.md").read_text(encoding="utf-8"))


def test_python_snippets_run_in_order(tmp_path, monkeypatch, loaded):
    monkeypatch.chdir(tmp_path)
    write_photos()
    reader = pages.Reader("README.md")
    shown = [reader.run(block) for block in README if block.language == "python"]
    assert len(shown) >= 1


def test_shell_snippets_run_in_order(tmp_path, monkeypatch, loaded):
    monkeypatch.chdir(tmp_path)
    write_photos()
    write_features(loaded())
    reader = pages.Reader("README.md")
    shells = [block for block in README if block.language == "sh"]
    commands = [command for block in shells for command in pages.commands(block.code)]
    assert len(commands) >= 4
    for block in shells:
        reader.run(block)
    assert Path("digits-result/report.html").exists()


def test_what_the_readme_links_to_is_there():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    places = re.findall(r"\]\(([^)#]+)", text)
    assert len(places) > 20
    assert [place for place in places if not (ROOT / place).exists()] == []


def test_the_first_screen_has_the_claim_the_install_the_lines_a_figure_and_a_table():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    first = "\n".join(lines[:45])
    for part in ("**Know when", "pip install typica", "```python", "threshold.svg", "| MSP |"):
        assert part in first
    assert first.index("CTM()") < first.index("Quorum()")
    assert len(lines) < 110


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_caption_of_the_threshold_is_what_it_does(page, loaded):
    text = (ROOT / page).read_text(encoding="utf-8")
    caption = r"One threshold: (\d+) % of known digits are rejected, (\d+) to (\d+) % of what"
    shown = [int(figure) for figure in re.search(caption, text).groups()]
    suite = loaded()
    detector = typica.Quorum(suite.head).fit(suite.train, suite.train_labels)
    detector.calibrate(suite.calibration, alpha=0.05)
    rejected = [100 * np.mean(detector.predict(rows) == -1) for rows in suite.tests.values()]
    known, strange = rejected[0], rejected[1:]
    np.testing.assert_allclose(shown, [known, min(strange), max(strange)], rtol=0, atol=0.75)


def test_the_figures_of_the_readme_are_those_that_were_measured():
    with (ROOT / "docs" / "measured.csv").open(newline="", encoding="utf-8") as file:
        measured = {(line["method"], line["set"]): line for line in csv.DictReader(file)}
    text = (ROOT / "README.md").read_text(encoding="utf-8").replace("*", "")
    rows = re.findall(
        r"^\| (\w+)[^|]*\| ([\d.]+) \| ([\d.]+) \|[^|]*\| ([\d.]+) \| ([\d.]+) \|", text, re.M
    )
    assert len(rows) == 6
    for name, *figures in rows:
        svhn, textures = measured[name.lower(), "svhn"], measured[name.lower(), "textures"]
        assert figures == [svhn["fpr95"], svhn["auroc"], textures["fpr95"], textures["auroc"]], name
