"""The recipe for boxes finds what it says that it finds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "boxes.md"


@pytest.fixture(scope="module")
def names() -> dict[str, object]:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    found: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, PAGE.name, "exec"), found)
    return found


def test_the_strange_box_is_found_and_no_other(names):
    found = names["found"]
    assert found.groups.verdict.tolist() == ["typical", "atypical", "typical"]
    assert found.only("atypical").row.tolist() == [6]
    assert found.groups.strangest[1] == 6 and found.groups.rows.tolist() == [4, 4, 1]


def test_regions_are_means_over_the_cells_that_a_box_covers(names):
    torch = pytest.importorskip("torch")
    maps = torch.arange(2 * 3 * 4 * 6, dtype=torch.float64).reshape(2, 3, 4, 6)
    boxes = torch.tensor(
        [[0.0, 0.0, 60.0, 40.0], [25.0, 11.0, 26.0, 12.0], [10.0, 20.0, 30.0, 40.0]]
    )
    image_of = torch.tensor([0, 1, 1])
    found = names["pooled"](maps, boxes, image_of, (40, 60))
    assert torch.equal(found[0], maps[0].mean((1, 2)))
    assert torch.equal(found[1], maps[1, :, 1, 2])
    assert torch.equal(found[2], maps[1, :, 2:4, 1:3].mean((1, 2)))
