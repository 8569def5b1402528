"""The snippets of the README run as they stand."""

from __future__ import annotations

from pathlib import Path

import pages
from conftest import ROOT
from helpers.snippets import write_features, write_photos

README = pages.read((ROOT / "README.md").read_text(encoding="utf-8"))


def test_python_snippets_run_in_order(tmp_path, monkeypatch, trained):
    monkeypatch.chdir(tmp_path)
    write_photos()
    reader = pages.Reader("README.md")
    shown = [reader.run(block) for block in README if block.language == "python"]
    assert len(shown) >= 1


def test_shell_snippets_run_in_order(tmp_path, monkeypatch, trained):
    monkeypatch.chdir(tmp_path)
    write_photos()
    write_features(trained())
    reader = pages.Reader("README.md")
    shells = [block for block in README if block.language == "sh"]
    commands = [command for block in shells for command in pages.commands(block.code)]
    assert len(commands) >= 4
    for block in shells:
        reader.run(block)
    assert Path("digits-result/report.html").exists()
    assert Path("out.json").exists() and Path("scores.csv").exists()
