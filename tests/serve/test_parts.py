"""The parts of the server by themselves: tensors, batches, the guard's rules."""

from __future__ import annotations

import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from typica.errors import InputError
from typica.serve._batcher import Batcher, BusyError, Job
from typica.serve._gate import RefusedError, check_token, is_here, is_loopback
from typica.serve._options import Options
from typica.serve._tensors import DTYPES, from_bytes, from_values, numbers_of, to_bytes

SHAPES = arrays.array_shapes(min_dims=1, max_dims=3, max_side=4)


@given(st.sampled_from(sorted(DTYPES)), SHAPES, st.data())
def test_numbers_come_back_as_they_were(datatype: str, shape, data) -> None:
    values = data.draw(arrays.arrays(DTYPES[datatype], shape))
    again = from_bytes(values.tobytes(), "x", datatype, shape)
    assert again.dtype == values.dtype
    assert again.tobytes() == values.tobytes()
    assert (
        to_bytes(values.ravel().tolist(), datatype) == values.tobytes()
        or np.isnan(values.astype(float)).any()
    )
    if np.isfinite(values.astype(np.float64)).all():
        for listed in (values.tolist(), values.ravel().tolist()):
            np.testing.assert_array_equal(from_values(listed, "x", datatype, shape), values)


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=6))
def test_texts_come_back_as_they_were(texts: list[bytes]) -> None:
    raw = to_bytes(texts, "BYTES")
    assert raw == b"".join(struct.pack("<I", len(text)) + text for text in texts)
    assert from_bytes(raw, "x", "BYTES", [len(texts)]).tolist() == texts


@given(
    st.binary(max_size=80),
    st.sampled_from([*sorted(DTYPES), "BYTES", "FP8"]),
    st.lists(st.integers(-2, 2**70), max_size=10),
)
def test_any_bytes_are_a_tensor_or_refused(raw: bytes, datatype: str, shape: list[int]) -> None:
    try:
        found = from_bytes(raw, "x", datatype, shape)
    except InputError:
        return
    assert found.shape == tuple(shape)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=2)
    ),
    max_leaves=20,
)


@given(
    VALUES,
    st.sampled_from([*sorted(DTYPES), "BYTES", "FP8"]),
    st.lists(st.integers(-1, 5), max_size=4),
)
def test_any_values_are_a_tensor_or_refused(values, datatype: str, shape: list[int]) -> None:
    try:
        found = from_values(values, "x", datatype, shape)
    except InputError:
        return
    assert found.shape == tuple(shape)


@pytest.mark.parametrize(
    ("values", "datatype"),
    [
        ([256], "UINT8"),
        ([-1], "UINT32"),
        ([0.5], "INT32"),
        ([float("nan")], "INT8"),
        ([1e30], "INT64"),
    ],
)
def test_numbers_that_a_type_cannot_hold(values, datatype: str) -> None:
    with pytest.raises(InputError, match="beyond"):
        from_values(values, "x", datatype, [1])


@given(VALUES)
def test_numbers_of_anything(values) -> None:
    try:
        assert numbers_of(values, "x").dtype.kind in "biuf"
    except InputError:
        return


class Work:
    """Doubles numbers, notes which it was given at once; may be held up; refuses negative ones."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.go = threading.Event()
        self.began = threading.Event()

    def __call__(self, jobs: list[Job]) -> list[int]:
        self.began.set()
        assert self.go.wait(60)
        self.batches.append([job.inputs for job in jobs])
        if any(job.inputs < 0 for job in jobs):
            raise ValueError("negative")
        return [2 * job.inputs for job in jobs]


def test_jobs_of_one_key_are_joined_in_order_up_to_the_most() -> None:
    work = Work()
    batcher = Batcher("test", work, queue=100)
    first = batcher.submit(Job("a", 0, 1, 4))
    assert work.began.wait(60)
    keys = ["a", "b", "a", "a", "b", "a", "a"]
    others = [batcher.submit(Job(key, number, 1, 4)) for number, key in enumerate(keys, 1)]
    large = batcher.submit(Job("a", 9, 7, 4))
    work.go.set()
    assert [first.result(60), large.result(60)] == [0, 18]
    assert [other.result(60) for other in others] == [2, 4, 6, 8, 10, 12, 14]
    assert work.batches == [[0], [1, 3, 4, 6], [2, 5], [7], [9]]
    batcher.close()


def test_one_that_fails_fails_no_other() -> None:
    work = Work()
    batcher = Batcher("test", work, queue=100)
    jobs = [batcher.submit(Job("a", number, 1, 10)) for number in (0, 1, -1, 2)]
    work.go.set()
    assert [jobs[place].result(60) for place in (0, 1, 3)] == [0, 2, 4]
    assert isinstance(jobs[2].exception(60), ValueError)
    batcher.close()


def test_what_is_cancelled_is_not_worked_on() -> None:
    work = Work()
    batcher = Batcher("test", work, queue=100)
    batcher.submit(Job("a", 0, 1, 1))
    assert work.began.wait(60)
    left = [batcher.submit(Job("a", number, 1, 1)) for number in (1, 2)]
    assert left[0].cancel()
    work.go.set()
    assert left[1].result(60) == 4
    assert work.batches == [[0], [2]]
    batcher.close()


def test_the_queue_and_its_end() -> None:
    work = Work()
    batcher = Batcher("test", work, queue=5)
    # More than the queue, as nothing waits.
    with batcher.room(9), pytest.raises(BusyError, match="9 inputs are"), batcher.room(1):
        pass
    with batcher.room(3), batcher.room(2):
        assert batcher.waiting == 5
        with pytest.raises(BusyError) as refused, batcher.room(1):
            pass
        assert refused.value.seconds >= 1
    assert batcher.waiting == 0
    waiting = [batcher.submit(Job("a", number, 1, 1)) for number in range(3)]
    with ThreadPoolExecutor(1) as pool:
        closing = pool.submit(batcher.close)
        while not batcher._closing:
            time.sleep(0.001)
        with pytest.raises(BusyError):
            batcher.submit(Job("a", 1, 1, 1))
        with pytest.raises(BusyError), batcher.room(1):
            pass
        work.go.set()
        closing.result(60)
    assert [job.result(0) for job in waiting] == [0, 2, 4]  # what was accepted is answered


def test_tokens() -> None:
    check_token("", None)
    check_token("Bearer abc", "abc")
    check_token("bearer  abc ", "abc")
    for given_token in (
        "",
        "abc",
        "Bearer",
        "Bearer ab",
        "Bearer abcd",
        "Basic abc",
        "Basic YTpi",
        "Other abc",
    ):
        with pytest.raises(RefusedError):
            check_token(given_token, "abc")
    check_token("Basic eDphYmM=", "abc")  # x:abc


NOT_OPTIONS = [
    {"token": ""},
    {"token": "short"},
    {"token": "two words of some length"},
    {"token": "with\nanother-line-that-is-long"},
    {"token": "ä" * 16},
    {"token": b"0123456789abcdef"},
    {"port": "8080"},
    {"port": None},
    {"grpc_port": 8080.5},
    {"metrics_port": True},
    {"host": 5},
    {"host": ""},
]


@pytest.mark.parametrize("wrong", NOT_OPTIONS, ids=str)
def test_what_a_server_cannot_be_told(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(InputError, match=rf"^Options: {name}.*; pass ") as refused:
        Options(**wrong)
    if wrong.get("token"):
        assert str(wrong["token"]) not in str(refused.value)


def test_a_token_that_is_long_enough() -> None:
    assert Options(token="0123456789abcdef").token == "0123456789abcdef"


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("localhost:80", True),
        ("LOCALHOST", True),
        ("127.0.0.1", True),
        ("[::1]:8080", True),
        ("10.0.0.1:80", True),
        ("", False),
        ("a.test", False),
        ("localhost.a.test", False),
        ("127.0.0.1.a.test:80", False),
        ("[", False),
    ],
)
def test_hosts(host: str, here: bool) -> None:
    assert is_here(host) == here
    assert [
        is_loopback(name)
        for name in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "10.0.0.1", "a.test")
    ] == [True] * 3 + [False] * 3
