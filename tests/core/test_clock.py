"""A busy machine is slow, not wrong: no test's verdict depends on the clock."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import settings

TESTS = Path(__file__).parents[1]
CLOCK = re.compile(r"deadline=|monotonic\(|perf_counter\(|time\.time\(|timeout=\d+[,)]")


def test_examples_may_take_their_time():
    assert settings.default.deadline is None


def test_no_test_reads_the_clock():
    # Tests of servers and clusters wait for other processes, minutes at most: a hang must end.
    waiting = {*TESTS.glob("serve/*.py"), *TESTS.glob("engines/*.py"), TESTS / "helpers/serving.py"}
    allowed = {TESTS / "conftest.py", Path(__file__), *waiting}
    found = {
        f"{path.relative_to(TESTS)}: {line.strip()}"
        for path in TESTS.rglob("*.py")
        if path not in allowed
        for line in path.read_text(encoding="utf-8").splitlines()
        if CLOCK.search(line)
    }
    assert found == set()
