"""What a single request would wait for: a socket that holds back answers, threads that wait."""

from __future__ import annotations

import socket

import pytest

from typica.serve._server import _bound
from typica.serve._threads import TRIES, Threads


def test_an_answer_is_sent_at_once():
    with (
        _bound("127.0.0.1", 0, "port") as listening,
        socket.create_connection(listening.getsockname()),
        listening.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize("faster", [1, 4])
def test_the_faster_way_is_taken_once_both_were_tried(faster):
    threads, tried = Threads(most=4), []
    for _ in range(2 * TRIES):
        way = threads.wanted(8)
        tried.append(way)
        threads.note(8, way, 1.0 if way == faster else 2.0)
    assert sorted(tried) == [1] * TRIES + [4] * TRIES
    assert {threads.wanted(8) for _ in range(3)} == {faster}


def test_sizes_are_told_apart_and_one_slow_batch_decides_nothing():
    threads = Threads(most=2)
    for size, best in ((1, 1), (8, 2)):
        for number in range(2 * TRIES):
            way = threads.wanted(size)
            slow = 100.0 if number < 2 else 0.0
            threads.note(size, way, slow + (1.0 if way == best else 2.0))
    assert (threads.wanted(1), threads.wanted(8)) == (1, 2)


def test_one_core_has_nothing_to_choose():
    threads = Threads(most=1)
    assert threads.run(8, lambda: "rows") == "rows"
    assert threads.wanted(8) == 1
