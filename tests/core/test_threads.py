"""Work in threads: results in order, no more of them than are wanted, errors where they belong."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from typica.threads import blas_threads, in_threads


@settings(max_examples=50)
@given(items=st.lists(st.integers(), max_size=30), threads=st.integers(1, 4))
def test_results_come_in_order(items, threads):
    assert list(in_threads(lambda item: item + 1, items, threads)) == [item + 1 for item in items]


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_comes_where_its_result_would_have(threads):
    results = in_threads(lambda item: 1 // item, [1, 1, 0, 1], threads)
    assert [next(results), next(results)] == [1, 1]
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_nothing_runs_far_ahead_nor_after_the_caller_has_stopped():
    begun = []
    results = in_threads(begun.append, range(1000), 2)
    next(results)
    assert len(begun) <= 3
    results.close()
    assert len(begun) <= 3
    assert not [one for one in threading.enumerate() if one.name.startswith("typica")]


def test_as_many_threads_as_blas_may_have():
    assert blas_threads() >= 1
