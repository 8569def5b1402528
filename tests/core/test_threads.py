"""Work in threads: results in order, no more of them than are wanted, errors where they belong."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from typica.threads import (
    Threads,
    blas,
    blas_threads,
    in_threads,
    one_blas_thread,
    one_blas_thread_fewer,
)

# Counts the steps of the interpreter that the caller takes in our code and in the standard
# library's, and presses Ctrl-C, as it were, at each of them in turn.
AT_EVERY_STEP = """
import sys
from typica.scale._read_ahead import ahead
from typica.threads import in_threads

def interrupted(use, step):
    taken = 0

    def trace(frame, event, _):
        nonlocal taken
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            taken += 1
            if taken == step:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    sys._getframe().f_trace_opcodes = True  # or Python 3.12 tells of none
    sys.settrace(trace)
    try:
        use()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return False

for use in (lambda: list(in_threads(abs, range(5), 2)), lambda: list(ahead(range(5)))):
    step = 1
    while interrupted(use, step):
        step += 1
    print(step)
"""


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


def test_whoever_is_interrupted_at_any_step_neither_hangs_nor_meets_another_error():
    script = [sys.executable, "-c", AT_EVERY_STEP]
    run = subprocess.run(script, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert all(int(steps) > 100 for steps in run.stdout.split())


def test_what_was_not_begun_is_left_out_when_the_block_ends():
    begun = []

    def work(item):
        begun.append(item)
        while not pool.stopped:
            time.sleep(0.001)

    with Threads(1, "typica") as pool:
        for item in range(3):
            pool.submit(work, item)
        while not begun:
            time.sleep(0.001)
    assert begun == [0]


@pytest.mark.parametrize("most", [0, 1])
def test_threads_that_the_system_does_not_start_are_done_without(most, monkeypatch):
    started = []
    start = threading.Thread.start

    def start_a_few(thread):
        if len(started) == most:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_a_few)
    assert list(in_threads(abs, [-1, 2, -3], 2)) == [1, 2, 3]


def test_as_many_threads_as_blas_may_have():
    assert blas_threads() >= 1


def test_one_thread_of_blas_and_afterwards_as_many_as_before():
    before = blas_threads()
    with one_blas_thread(), one_blas_thread():
        assert blas_threads() == 1
    assert blas_threads() == before


@pytest.mark.parametrize("first", [one_blas_thread, one_blas_thread_fewer])
@pytest.mark.parametrize("second", [one_blas_thread, one_blas_thread_fewer])
def test_blocks_that_overlap_leave_blas_as_it_was(first, second):
    with blas().limit(limits=4):
        before = blas_threads()
        one, other = first(), second()
        one.__enter__()
        other.__enter__()
        assert blas_threads() <= max(1, before - 1)
        one.__exit__(None, None, None)
        assert blas_threads() <= max(1, before - 1)
        other.__exit__(None, None, None)
        assert blas_threads() == before


def test_a_block_of_one_thread_has_one_whatever_other_threads_do():
    within, over = threading.Event(), threading.Event()

    def read_ahead():
        with one_blas_thread_fewer():
            within.set()
            over.wait(10)

    before = blas_threads()
    reader = threading.Thread(target=read_ahead)
    reader.start()
    assert within.wait(10)
    with one_blas_thread():
        over.set()
        reader.join()
        assert blas_threads() == 1
    assert blas_threads() == before
