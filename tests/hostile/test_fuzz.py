"""A fixed number of the fuzzer's cases; `make test-all` goes through a hundred thousand."""

from __future__ import annotations

import os

import pytest
from helpers.fuzz import fuzz

CASES = 1500


@pytest.mark.skipif(os.name != "posix", reason="processor time is limited by POSIX's means")
def test_nothing_but_an_input_error_comes_of_mutated_files() -> None:
    assert fuzz(range(CASES)) == []
