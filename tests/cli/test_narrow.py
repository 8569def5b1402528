"""Tables on a narrow terminal: whole numbers in fewer columns."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console
from rich.text import Text

from typica.cli._show import table

COLUMNS = ["detector", "held out digits", "photos", "mean", "FPR"]
ROWS = [
    ["relative_mahalanobis", "96.69", Text("100.00", style="bold"), "96.86", "17.08"],
    ["knn", "1", "2", "3", "4"],
]


def printed(width: int, **options) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(table("", COLUMNS, ROWS, **options))
    return out.getvalue()


@pytest.mark.parametrize("width", [80, 60, 50, 40, 30])
def test_no_number_is_broken(width):
    text = printed(width, keep=("mean",))
    assert max(map(len, text.splitlines())) <= width
    above, _, below = text.partition("no room for: ")
    numbers = {"96.69", "100.00", "96.86", "17.08"}
    assert set(re.findall(r"\d+\.\d+", above)) <= numbers and "…" not in above
    shown = [name for name in COLUMNS[1:] if name.split()[-1] in above.split()]
    assert bool(below) == (len(shown) < 4)
    assert len(shown) == len(above.splitlines()[-1].split()) - 1
    if width >= 30:
        assert "96.86" in above  # kept as long as others can go


def test_a_wide_terminal_shows_all():
    assert "no room for" not in printed(80)


def test_without_a_choice_the_last_columns_go():
    text = printed(40)
    assert "17.08" not in text and "no room for: " in text and "96.69" in text


def test_names_are_shown_letter_for_letter():
    out = io.StringIO()
    Console(file=out, width=80).print(table("", ["set", "[red]a"], [["[bold]b[/]", "1"]]))
    assert "[red]a" in out.getvalue() and "[bold]b[/]" in out.getvalue()
