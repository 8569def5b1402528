"""The page on how tables grow follows from what was measured, and from the constants it states."""

from __future__ import annotations

import math
import re

import make_scale_costs
import numpy as np
import pytest
from cost_model import Constants, Fit, formula, simulate
from helpers.pages import DOCS

from typica import CTM
from typica.scale import Batch, Learner

PAGE = (DOCS / "scale_costs.md").read_text(encoding="utf-8")


def rows_of(name: str) -> list[list[str]]:
    """Return the cells of a table of the page, without its head."""
    text = re.search(rf"<!-- {name} -->\n(.*?)<!-- end -->", PAGE, re.DOTALL)[1]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()[2:]]


def number(text: str) -> float:
    """Return the number that a cell begins with."""
    return float(re.match(r"\$?([\d.,]+)", text)[1].replace(",", ""))


def stated() -> dict[str, float]:
    """Return the constants that the page states, by their first word."""
    return {row[0]: number(row[1]) for row in rows_of("constants")}


def test_the_tables_are_made_of_what_was_measured():
    assert make_scale_costs.filled(PAGE) == PAGE, "run: python docs/make_scale_costs.py"


def test_every_table_is_on_the_page():
    assert set(re.findall(r"<!-- (\w+) -->", PAGE)) - {"end"} == set(make_scale_costs.TABLES)


def test_time_and_cost_follow_from_the_constants_that_are_stated():
    constants = stated()
    m = 1e6 * constants["m, a worker merges states of 1,000 classes"]
    n = 1e6 * constants["n, a worker receives"]
    fan, part = constants["F, states merged at a time"], 2**28
    price = constants["an hour of a worker"]
    assert constants["a part"] == round(part / 1e6)
    counts = {"ImageNet-1k": 1_281_167, "100 million": 1e8, "5 billion": 5e9}
    checked = 0
    for name, _, workers, parts, *told in rows_of("known"):
        size, count = 4 * 768 * counts[name], number(workers)
        states = math.ceil(size / part)
        assert states == number(parts)
        one = (8 * 1000 + 4 * 2600 / states) * 768 * (1 / m + 1 / n)  # a state, fetched and merged
        for place, engine in enumerate(["Dask", "Ray", "Spark"]):
            v = 1e6 * constants[f"v, a worker learns on {engine}"]
            h = 1e-3 * constants[f"h, {engine} takes for a part"]
            took = size / count / v + states * one * fan / (fan - 1) / count
            took = max(took, states * h)
            if count > 1:
                took += math.ceil(math.log(states, fan)) * fan * one
            assert number(told[place]) == round(took)
            assert number(told[3 + place]) == pytest.approx(price * count * took / 3600, abs=0.006)
            checked += 1
    assert checked == 3 * 10


def test_the_formula_is_near_the_simulation():
    told = [row for row in rows_of("growth") if row[6]]  # of parts that know all classes
    assert len(told) >= 9
    for row in told:
        seconds, simulated = number(row[6]), number(row[7])
        assert 0.9 * simulated - 1 <= seconds <= 1.35 * simulated + 1, row


def test_states_are_as_large_as_the_formula_has_them():
    for line in make_scale_costs.lines_of("measured_merge.csv"):
        share = 2600 / int(line["partitions"])
        size = (8 * int(line["classes"]) + 4 * share) * 768
        by_chance = 4 * 768 * 4 * math.sqrt(share)
        assert int(line["state_bytes"]) == pytest.approx(size, rel=0.02, abs=by_chance)


SPEEDS = Constants(learn=4e8, merge=8e8, network=1e9)


def test_a_simulated_fit_loses_no_time_and_no_state():
    alone = simulate(Fit(1e7, 768, 1000, 1), SPEEDS)
    fit = Fit(1e7, 768, 1000, 1)
    merged = fit.parts + sum(math.ceil(fit.parts / 8**level) for level in (1, 2))
    expected = fit.size / SPEEDS.learn + merged * fit.state * (1 / 8e8 + 1 / 1e9)
    assert alone.seconds == pytest.approx(expected, rel=0.02)  # a last group may hold one state
    many = simulate(Fit(1e7, 768, 1000, 16), SPEEDS)
    assert alone.seconds / 16 <= many.seconds < alone.seconds / 8


def test_the_reduce_becomes_the_limit_with_the_classes():
    few, many = (simulate(Fit(1e8, 768, classes, 128), SPEEDS) for classes in (1000, 100_000))
    assert few.tail < 0.1 * few.seconds
    assert many.tail > 0.5 * many.seconds
    larger = simulate(Fit(1e8, 768, 100_000, 128, part=2.0**32), SPEEDS)
    assert larger.seconds < 0.8 * many.seconds and larger.merging < many.merging
    in_order = simulate(Fit(1e8, 768, 100_000, 128, sorted=True), SPEEDS)
    assert in_order.tail < 0.1 * many.tail


def test_the_engine_becomes_the_limit_with_the_parts():
    slow = Constants(4e8, 8e8, 1e9, task=0.01)
    fit = Fit(5e9, 768, 1000, 1024)
    assert simulate(fit, slow).seconds == pytest.approx(0.01 * fit.parts, rel=0.01)
    assert formula(fit, slow) == pytest.approx(0.01 * fit.parts, rel=0.01)


def test_rows_in_the_order_of_classes_make_small_states():
    """A part knows the classes that it has seen, and no others."""
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((4096, 256), dtype=np.float32)
    sizes = {}
    for classes in (2, 2000):
        batch = Batch(Z, np.arange(4096) % classes)
        sizes[classes] = len(Learner(CTM()).add(batch).to_bytes())
    assert sizes[2000] - sizes[2] == pytest.approx(8 * 1998 * 256, rel=0.05)


def test_one_part_needs_no_tree():
    assert formula(Fit(1000, 768, 10, 4), SPEEDS) == pytest.approx(1000 * 768 / 4e8)
