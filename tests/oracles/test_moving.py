"""The tables of docs/moving: both sides of every row are evaluated, and relate as the row says."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

AS_IT_IS = True  # of either library, as a user has it
ROOT = Path(__file__).parents[2]
MOVING = ROOT / "docs" / "moving"
# alibi-detect needs NumPy 1 and lives in an environment of its own (`make .alibi/ready`).
ALIBI = ROOT / ".alibi" / "bin" / "python"
CODE = re.compile(r"`([^`]+)`")


class Row(NamedTuple):
    """A row of a table: what is called there and here, and how the two relate."""

    page: str
    there: str
    here: str
    relation: str


def rows() -> Iterator[Row]:
    """Yield the rows whose third column is headed `is`."""
    for path in sorted(MOVING.glob("*.md")):
        in_table = False
        for line in path.read_text(encoding="utf-8").splitlines():
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            if not line.startswith("|"):
                in_table = False
            elif cells[-1].rstrip(" |") == "is":
                in_table = True
            elif in_table and not line.startswith("|---"):
                there, here = (CODE.fullmatch(cell)[1] for cell in cells[:2])
                yield Row(path.stem, there, here, re.split(";", cells[2].rstrip(" |"))[0].strip())


ROWS = list(rows())


def blocks(page: str, language: str) -> str:
    text = (MOVING / f"{page}.md").read_text(encoding="utf-8")
    found = re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    return "\n".join(found)


@pytest.fixture(scope="module")
def names() -> Callable[[str], dict[str, Any]]:
    """What a page defines, once for all of its rows."""
    made: dict[str, dict[str, Any]] = {}

    def of(page: str) -> dict[str, Any]:
        if page not in made:
            made[page] = {}
            exec(blocks(page, "python"), made[page])
            if page != "alibi-detect":
                exec(blocks(page, "py"), made[page])
        return made[page]

    return of


def evaluated_apart(expression: str, given: dict[str, Any], folder: Path) -> Any:
    """Evaluate what is called there in the environment of alibi-detect."""
    if not ALIBI.exists():
        pytest.skip("alibi-detect is not installed: make .alibi/ready")
    arrays = {name: value for name, value in given.items() if isinstance(value, np.ndarray)}
    np.savez(folder / "given.npz", **arrays)
    code = (
        f"import numpy as np\nglobals().update(np.load({str(folder / 'given.npz')!r}))\n"
        f"{blocks('alibi-detect', 'py')}\nnp.save({str(folder / 'found.npy')!r}, {expression})\n"
    )
    done = subprocess.run([str(ALIBI), "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return np.load(folder / "found.npy")


def as_array(value: Any) -> np.ndarray:
    return np.asarray(value.detach().numpy() if hasattr(value, "detach") else value)


def rounding(there: np.ndarray) -> float:
    """How far two libraries may be apart, as a share of the largest score."""
    return 1e-3 if there.dtype == np.float32 else 1e-6


def same(there: np.ndarray, here: np.ndarray) -> None:
    if here.dtype == bool:
        np.testing.assert_array_equal(here, there)
    else:
        scale = np.abs(there).max()
        np.testing.assert_allclose(here, there, rtol=0, atol=rounding(there) * scale)


def minus(there: np.ndarray, here: np.ndarray) -> None:
    same(-there, here)


def minus_and_constant(there: np.ndarray, here: np.ndarray) -> None:
    total = there + here
    np.testing.assert_allclose(total, np.median(total), rtol=0, atol=1e-4 * np.ptp(there))
    assert np.ptp(there) > 0


def minus_and_factor(there: np.ndarray, here: np.ndarray) -> None:
    same_and_factor(-there, here)


def same_and_factor(there: np.ndarray, here: np.ndarray) -> None:
    factor = np.vdot(here, there) / np.vdot(there, there)
    assert factor > 0
    np.testing.assert_allclose(
        here, factor * there, rtol=0, atol=rounding(there) * np.abs(here).max()
    )


def same_order(there: np.ndarray, here: np.ndarray) -> None:
    np.testing.assert_array_equal(np.argsort(there, kind="stable"), np.argsort(here, kind="stable"))


RELATIONS = {
    "the same": same,
    "the same, but for a factor": same_and_factor,
    "the same order": same_order,
    "minus": minus,
    "minus, but for a constant": minus_and_constant,
    "minus, but for a factor": minus_and_factor,
}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.page}: {row.there[:40]}")
def test_both_sides_relate_as_the_row_says(row, names, tmp_path) -> None:
    given = names(row.page)
    here = as_array(eval(row.here, given))
    if row.page == "alibi-detect":
        there = evaluated_apart(row.there, given, tmp_path)
    else:
        there = as_array(eval(row.there, given))
    RELATIONS[row.relation](there, here)


def test_every_library_has_rows() -> None:
    assert {row.page for row in ROWS} == {path.stem for path in MOVING.glob("*.md")} - {"index"}
    assert len(ROWS) >= 25
    assert {row.relation for row in ROWS} <= set(RELATIONS)


def test_a_wrong_row_is_found() -> None:
    scores = np.array([1.0, 2.0, 4.0])
    for relation, wrong in {
        "the same": -scores,
        "minus": scores,
        "minus, but for a constant": -2 * scores,
        "minus, but for a factor": 3 * scores,
        "the same order": -scores,
        "the same, but for a factor": scores + 5,
    }.items():
        with pytest.raises(AssertionError):
            RELATIONS[relation](scores, wrong)
