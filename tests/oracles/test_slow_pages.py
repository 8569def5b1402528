"""The pages of the site that take long, or need what the other tests do without."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

AS_IT_IS = True  # networks run in their own precision
ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "docs" / "tools")]

import pages  # noqa: E402


@pytest.mark.parametrize("name", ["tutorials/photos.md"])
def test_the_code_of_a_page_runs(name, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = pages.read((ROOT / "docs" / name).read_text(encoding="utf-8"))
    reader = pages.Reader(name)
    for block in blocks:
        printed = reader.run(block)
        if block.output is not None:
            assert not pages.differences(printed, block.output), block.line
