"""What a single request would wait for: a socket that holds back answers, threads that wait."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Iterator
from time import sleep
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from typica.data import Preprocessing
from typica.errors import InputError
from typica.nets import FeatureExtractor, Opened, Reopened
from typica.serve._sockets import bound
from typica.serve._threads import AGAIN, TRIES, Crew, Way, Ways


def test_an_answer_is_sent_at_once():
    with (
        bound("127.0.0.1", 0, "port") as listening,
        socket.create_connection(listening.getsockname()),
        listening.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


TOGETHER, ALONE, PARTED = Way(1, 4), Way(1, 1), Way(4, 1)
KINDS = 3


def run(ways: Ways, size: int, best: Way, batches: int) -> list[Way]:
    """Run batches that are faster in the way `best`; return the way that each was run."""
    taken = []
    for _ in range(batches):
        taken.append(ways.wanted(size))
        ways.note(size, taken[-1], 1.0 if taken[-1] == best else 2.0)
    return taken


@pytest.mark.parametrize("best", [TOGETHER, ALONE, PARTED])
def test_the_fastest_way_is_taken_and_the_others_tried_again(best):
    taken = run(Ways(4, 4), 8, best, KINDS * TRIES + 10 * AGAIN)
    first, later = taken[: KINDS * TRIES], taken[KINDS * TRIES :]
    assert Counter(first) == dict.fromkeys((TOGETHER, ALONE, PARTED), TRIES)
    assert Counter(later).pop(best) == len(later) - 10
    assert set(later) == {TOGETHER, ALONE, PARTED}


def test_sizes_are_told_apart_and_the_load_may_change():
    ways = Ways(4, 4)
    run(ways, 2, ALONE, KINDS * TRIES)
    run(ways, 8, TOGETHER, KINDS * TRIES)
    assert (ways.wanted(2), ways.wanted(8)) == (ALONE, TOGETHER)
    assert run(ways, 8, PARTED, 20 * AGAIN)[-5:] == [PARTED] * 5


def test_one_slow_batch_decides_nothing():
    ways = Ways(4, 4)
    run(ways, 8, PARTED, KINDS * TRIES)
    ways.note(8, PARTED, 100.0)
    assert ways.wanted(8) == PARTED


@pytest.mark.parametrize(
    ("ways", "size", "expected"),
    [
        (Ways(4, 4), 1, {TOGETHER, ALONE}),
        (Ways(4, 4), 3, {TOGETHER, ALONE, Way(3, 1)}),
        (Ways(4, 1), 8, {TOGETHER, ALONE}),
        (Ways(1, 1), 8, {ALONE}),
    ],
)
def test_there_are_no_more_parts_than_images_or_twins(ways, size, expected):
    assert set(run(ways, size, ALONE, 2 * KINDS * TRIES + AGAIN)) == expected


@pytest.fixture
def network() -> Reopened:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    )
    extractor = FeatureExtractor(nn.Sequential(model, nn.Linear(4, 2)))
    return Reopened(Opened(extractor, None, None), Preprocessing(8, 8))


@pytest.fixture
def crew() -> Iterator[Crew]:
    made = Crew("test", threads=3, parts=8)
    yield made
    made.close()


IMAGES = np.random.default_rng(0).normal(size=(7, 3, 8, 8)).astype(np.float32)


def look(network: Reopened, images: Any) -> Any:
    return network.opened.extractor(np.stack(images)).features.numpy()


def test_rows_are_the_same_and_in_order_whatever_the_way(crew, network):
    expected = look(network, IMAGES)
    ran = []

    def noted(one, images):
        ran.append((one is network, len(images), torch.get_num_threads()))
        return look(one, images)

    for _ in range(KINDS * TRIES):
        np.testing.assert_allclose(crew.run(network, IMAGES, noted), expected, rtol=1e-5)
    assert set(ran) == {(True, 7, 3), (True, 7, 1), (True, 3, 1), (False, 2, 1)}


def test_parts_run_at_the_same_time(crew, network):
    meeting = threading.Barrier(3)

    def met(one, images):
        if len(images) < 7:
            meeting.wait(60)
        return look(one, images)

    for _ in range(KINDS):
        assert len(crew.run(network, IMAGES, met)) == 7


def test_a_part_that_fails_fails_the_batch_once_all_have_ended(crew, network):
    at_work = Counter()

    def failing(one, images):
        if len(images) == 7:
            return look(one, images)
        at_work["begun"] += 1
        if one is network:
            raise InputError("no.")
        sleep(0.2)
        at_work["ended"] += 1
        return look(one, images)

    for _ in range(2):
        crew.run(network, IMAGES, failing)
    with pytest.raises(InputError):
        crew.run(network, IMAGES, failing)
    assert at_work == {"begun": 3, "ended": 2}


def test_another_network_is_run_by_itself(crew, network):
    other = Reopened(
        network.opened._replace(
            extractor=lambda images: SimpleNamespace(features=torch.ones(7, 1))
        ),
        network.transform,
    )
    for _ in range(KINDS * TRIES):
        crew.run(network, IMAGES, look)
    for _ in range(KINDS * TRIES):
        assert (crew.run(other, IMAGES, look) == 1).all()  # one that has no twin


def test_a_network_that_refuses_to_be_copied_has_no_twin(network):
    network.opened.extractor.model.held = threading.Lock()
    assert network.twin() is None
