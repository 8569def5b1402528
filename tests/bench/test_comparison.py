"""Detectors side by side: who is best, and who is worth the cost."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from helpers.data import Data
from helpers.watcher import Watcher
from hypothesis import given
from hypothesis import strategies as st

import typica
from typica.bench import Comparison, FeatureSuite, compare, compare_on, comparison_table, pareto
from typica.metrics import evaluate_many
from typica.progress import watched_by

SHARES = st.sampled_from([0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
COSTS = st.sampled_from([1.0, 2.0, 5.0])


def compared(auroc: float, cost: float) -> Comparison:
    """A comparison whose AUROC and cost are these: of ten known rows, so many lie above."""
    known = np.where(np.arange(10) < round(10 * auroc), 2.0, 0.0)
    evaluation = evaluate_many("ctm", known, {"strange": np.ones(4)})
    return Comparison(typica.CTM(), score_microseconds=cost, evaluation=evaluation)


@given(st.lists(st.tuples(SHARES, COSTS), max_size=8))
def test_nobody_at_the_edge_is_beaten_and_everybody_else_is(rows):
    table = {f"d{i}": compared(*row) for i, row in enumerate(rows)}
    edge = pareto(table)
    chosen = {worth.name for worth in edge}
    for i, (auroc, cost) in enumerate(rows):
        better = [
            j
            for j, (other, price) in enumerate(rows)
            if (other > auroc and price <= cost) or (other >= auroc and price < cost)
        ]
        twin = any(
            row == (auroc, cost) and f"d{j}" in chosen for j, row in enumerate(rows) if j != i
        )
        assert (f"d{i}" in chosen) == (not better and not twin)
    assert [worth.microseconds for worth in edge] == sorted(worth.microseconds for worth in edge)


def test_what_failed_is_not_worth_anything():
    assert pareto({"ctm": Comparison(typica.CTM(), error="no")}) == []


@given(st.lists(st.tuples(SHARES, COSTS), min_size=1, max_size=8))
def test_the_best_is_first_and_marked_and_what_failed_is_last(rows):
    given = {f"d{i}": compared(*row) for i, row in enumerate(rows)}
    given["broken"] = Comparison(typica.CTM(), error="no")
    table = comparison_table(given, "title")
    assert [column.label for column in table.columns] == [
        "detector", "strange ↑", "mean ↑", "FPR ↓", "fit s ↓", "µs/row ↓"
    ]  # fmt: skip
    names = [cell.value for cell in table.columns[0].cells]
    order = sorted(range(len(rows)), key=lambda i: -rows[i][0])  # equals as they came
    assert names == [*(f"d{i}" for i in order), "broken (failed)"]
    largest, least = max(rows)[0], min(cost for _, cost in rows)
    aurocs, costs = table.columns[2].cells[:-1], table.columns[5].cells[:-1]
    for cell in aurocs if min(rows)[0] < largest else ():
        assert cell.best == (abs(cell.value - largest) < 1e-9)
    for cell in costs if max(cost for _, cost in rows) > least else ():
        assert cell.best == (cell.value == least)


def test_where_all_failed_there_are_names_alone():
    table = comparison_table({"ctm": Comparison(typica.CTM(), error="no")})
    assert [cell.value for cell in table.columns[0].cells] == ["ctm (failed)"]
    assert all(column.cells[0].value is None for column in table.columns[1:])


def test_frames_of_other_column_names_are_compared_all_the_same(data: Data):
    pd = pytest.importorskip("pandas")
    width = data.train.shape[1]
    train = pd.DataFrame(data.train, columns=[f"f{i}" for i in range(width)])
    test = pd.DataFrame(data.test, columns=[f"g{i}" for i in range(width)])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X has feature names")
        found = compare({"ctm": typica.CTM()}, train, data.labels, test, {"ood": 3 - test})["ctm"]
    plain = compare({"ctm": typica.CTM()}, data.train, data.labels, data.test, {"o": 3 - data.test})
    assert found.evaluation is not None, found.error
    assert found.evaluation.average == plain["ctm"].evaluation.average


def test_without_a_head_a_suite_compares_the_detectors_that_need_none(data: Data):
    of_test = np.arange(len(data.test)) % 4
    rows = (data.train, data.labels, None, None, data.test, of_test)
    suite = FeatureSuite("mine", "Mine", *rows, {"o": data.ood}, frozenset(), *[None] * 4)
    watcher = Watcher()
    with watched_by(watcher):
        assert list(compare_on(suite, ["ctm", "msp"])) == ["ctm"]
    assert watcher.notes == ["left out, as they need a head: msp"]
    with pytest.raises(typica.InputError, match="no detector is left"):
        compare_on(suite, ["msp"])
