"""What a single request would wait for: a socket that holds back answers, threads that wait."""

from __future__ import annotations

import socket

import pytest

from typica.serve._server import _bound
from typica.serve._threads import AGAIN, TRIES, Threads


def test_an_answer_is_sent_at_once():
    with (
        _bound("127.0.0.1", 0, "port") as listening,
        socket.create_connection(listening.getsockname()),
        listening.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def run(threads: Threads, size: int, best: int, batches: int) -> list[int]:
    """Run batches that are faster in `best` threads; return how many threads each was run in."""
    ways = []
    for _ in range(batches):
        ways.append(threads.wanted(size))
        threads.note(size, ways[-1], 1.0 if ways[-1] == best else 2.0)
    return ways


@pytest.mark.parametrize("best", [1, 4])
def test_the_faster_way_is_taken_and_the_other_tried_again(best):
    ways = run(Threads(most=4), 8, best, 2 * TRIES + 10 * AGAIN)
    assert sorted(ways[: 2 * TRIES]) == [1] * TRIES + [4] * TRIES
    later = ways[2 * TRIES :]
    assert later.count(best) == len(later) - 10


def test_sizes_are_told_apart_and_the_load_may_change():
    threads = Threads(most=2)
    run(threads, 1, 1, 2 * TRIES)
    run(threads, 8, 2, 2 * TRIES)
    assert (threads.wanted(1), threads.wanted(8)) == (1, 2)
    assert run(threads, 8, 1, 10 * AGAIN)[-5:] == [1] * 5


def test_one_slow_batch_decides_nothing():
    threads = Threads(most=2)
    run(threads, 8, 2, 2 * TRIES)
    threads.note(8, 2, 100.0)
    assert threads.wanted(8) == 2


def test_one_core_has_nothing_to_choose():
    threads = Threads(most=1)
    assert threads.run(8, lambda: "rows") == "rows"
    assert threads.wanted(8) == 1
