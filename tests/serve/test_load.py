"""What waits together is judged together; what is too much is refused.

What was accepted is answered, or refused aloud.
"""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc
from helpers.images import encoded
from helpers.serving import HOST, MODEL, Serving, eventually, serving
from tritonclient.utils import InferenceServerException

QUEUE = 20
BODY = 2_000_000
MANY = 12  # requests in tests that end the server


@pytest.fixture(scope="module")
def gate(known) -> Path:
    return known.gate


def start(known, *options: str):
    env = {**known.env, "GATE": str(known.gate)}
    return serving(known.file("seen"), known.file("ctm"), *options, "--model", MODEL, env=env)


@pytest.fixture(scope="module")
def limited(known) -> Iterator[Serving]:
    """A server with a short queue whose network waits while the gate is shut."""
    with start(known, "--queue", str(QUEUE), "--max-body", "2", "--max-pixels", "1") as server:
        yield server


@contextmanager
def shut(gate: Path) -> Iterator[None]:
    gate.touch()
    try:
        yield
    finally:
        gate.unlink(missing_ok=True)


def seen(gate: Path) -> list[int]:
    """Return the sizes of the batches that the network was given."""
    file = gate.with_suffix(".seen")
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def accepted(server: Serving, count: int) -> None:
    """Wait until so many images have been accepted and wait."""
    name = 'typica_waiting_inputs{model="seen"}'
    eventually(lambda: server.metrics()[name] == count)


def asked(pool: ThreadPoolExecutor, server: Serving, photos: list[bytes]) -> list:
    return [pool.submit(server.score, ("image", photo), query="?model=seen") for photo in photos]


def test_what_waits_is_judged_in_batches(limited: Serving, known, gate: Path) -> None:
    before = len(seen(gate))
    with ThreadPoolExecutor(QUEUE) as pool:
        with shut(gate):
            futures = asked(pool, limited, known.photos[:1])
            eventually(lambda: len(seen(gate)) > before)  # it has begun, alone
            futures += asked(pool, limited, known.photos[1:QUEUE])
            accepted(limited, QUEUE)
        answers = [future.result() for future in futures]
    assert {answer.status for answer in answers} == {200}
    assert seen(gate)[before:] == [1, 8, 8, 3]  # as many as the network takes at once
    expected = known.judge(known.images(known.photos[:QUEUE])).score
    found = [answer.json()["results"][0]["score"] for answer in answers]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_full_queue(limited: Serving, known, gate: Path) -> None:
    before = limited.metrics()['typica_refused_total{model="seen"}']
    with ThreadPoolExecutor(QUEUE) as pool:
        with shut(gate):
            futures = asked(pool, limited, known.photos[:QUEUE])
            accepted(limited, QUEUE)
            refused = limited.score(("more", known.photos[0]), query="?model=seen")
            assert (refused.status, "waiting already" in refused.json()["error"]) == (503, True)
            assert 1 <= int(refused.headers["retry-after"]) <= 60
            image = {
                "name": "images",
                "datatype": "UINT8",
                "shape": [1, 8, 8, 3],
                "data": [0] * 192,
            }
            refused = limited.post("/v2/models/seen/infer", {"inputs": [image]})
            assert (refused.status, int(refused.headers["retry-after"]) >= 1) == (503, True)
            client = tritonclient.grpc.InferenceServerClient(f"{HOST}:{limited.grpc_port}")
            given = tritonclient.grpc.InferInput("images", [1, 8, 8, 3], "UINT8")
            given.set_data_from_numpy(np.zeros((1, 8, 8, 3), np.uint8))
            with pytest.raises(InferenceServerException, match="waiting already") as error:
                client.infer("seen", [given])
            assert error.value.status() == "StatusCode.UNAVAILABLE"
            client.close()
            # Another detector has a queue of its own, and health is told at any time.
            assert limited.infer("ctm", known.rows[:1]).status == 200
            assert limited.ask("/v2/health/live").status == 200
        assert {future.result().status for future in futures} == {200}
    assert limited.metrics()['typica_refused_total{model="seen"}'] == before + 3
    assert limited.score(("again", known.photos[0]), query="?model=seen").status == 200


def test_more_than_the_queue_is_taken_when_nothing_waits(limited: Serving, known) -> None:
    answer = limited.infer("ctm", known.rows[: 2 * QUEUE])
    assert answer.status == 200
    files = [(str(i), photo) for i, photo in enumerate(known.photos[: 2 * QUEUE])]
    assert limited.score(*files, query="?model=seen").status == 200


def test_a_body_that_is_too_long(limited: Serving) -> None:
    json = {"content-type": "application/json"}
    answer = limited.ask("/score?model=ctm", b" " * (BODY + 1), json)
    assert (answer.status, "2,000,000" in answer.json()["error"]) == (413, True)
    answer = limited.ask("/score?model=ctm", b" " * BODY, json)
    assert answer.status == 400  # read, and not JSON
    # Without a length, in chunks.
    with socket.create_connection((HOST, limited.port), 60) as raw:
        raw.sendall(
            b"POST /score?model=ctm HTTP/1.1\r\nHost: localhost\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        chunk = b"%x\r\n%s\r\n" % (100_000, b" " * 100_000)
        for _ in range(BODY // 100_000 + 1):
            raw.sendall(chunk)
        assert raw.recv(4096).startswith(b"HTTP/1.1 413")
    # Over gRPC, where the transport refuses it.
    client = tritonclient.grpc.InferenceServerClient(f"{HOST}:{limited.grpc_port}")
    given = tritonclient.grpc.InferInput("features", [40_000, 16], "FP32")
    given.set_data_from_numpy(np.zeros((40_000, 16), np.float32))
    with pytest.raises(InferenceServerException) as error:
        client.infer("ctm", [given])
    assert error.value.status() == "StatusCode.RESOURCE_EXHAUSTED"
    client.close()


def test_an_image_of_too_many_pixels(limited: Serving) -> None:
    bomb = encoded(np.zeros((1001, 1000, 3), np.uint8))
    assert len(bomb) < 10_000
    answer = limited.score(
        ("bomb.png", bomb),
        ("small.png", encoded(np.zeros((999, 1000, 3), np.uint8))),
        query="?model=seen",
    )
    results = answer.json()["results"]
    assert "more than 1,000,000" in results[0]["error"]
    assert "error" not in results[1]
    answer = limited.score(("bomb.png", bomb), query="?model=seen")
    assert answer.status == 400


def test_a_stop_answers_what_was_accepted(known, gate: Path) -> None:
    with start(known) as server, ThreadPoolExecutor(MANY) as pool:
        with shut(gate):
            futures = asked(pool, server, known.photos[:MANY])
            accepted(server, MANY)
            server.signal(signal.SIGTERM)
            server.wait_for("stopping")
            eventually(lambda: not listens(server))
            assert not any(future.done() for future in futures)
        answers = [future.result() for future in futures]
        assert {answer.status for answer in answers} == {200}
        assert server.ends() == 0
        server.wait_for("stopped")


def test_a_second_signal_does_not_wait(known, gate: Path) -> None:
    with start(known) as server, ThreadPoolExecutor(1) as pool, shut(gate):
        [future] = asked(pool, server, known.photos[:1])
        accepted(server, 1)
        server.signal(signal.SIGINT)
        server.wait_for("stopping")
        server.signal(signal.SIGINT)
        server.wait_for("stopping", 2)
        assert server.ends() == 0
        error = future.exception(60)  # no silence: the connection breaks, or an error is told
        assert isinstance(error, OSError) or future.result().status >= 500


def test_a_server_that_is_killed_loses_nothing_silently(known, gate: Path) -> None:
    with start(known) as server, ThreadPoolExecutor(MANY + 1) as pool:
        answered = server.score(("image", known.photos[0]), query="?model=seen")
        client = tritonclient.grpc.InferenceServerClient(f"{HOST}:{server.grpc_port}")
        given = tritonclient.grpc.InferInput("images", [1, 8, 8, 3], "UINT8")
        given.set_data_from_numpy(np.zeros((1, 8, 8, 3), np.uint8))
        with shut(gate):
            futures = asked(pool, server, known.photos[:MANY])
            by_grpc = pool.submit(client.infer, "seen", [given])
            accepted(server, MANY + 1)
            server.signal(signal.SIGKILL)
            errors = [future.exception(60) for future in futures]
            assert answered.status == 200
            assert all(isinstance(error, OSError) for error in errors), errors
            assert isinstance(by_grpc.exception(60), InferenceServerException)
        client.close()
        assert server.ends() == -signal.SIGKILL


def listens(server: Serving) -> bool:
    try:
        socket.create_connection((HOST, server.port), 5).close()
    except ConnectionRefusedError:
        return False
    return True


def test_connections_on_which_nothing_is_asked_do_not_keep_it_from_ending(known) -> None:
    with start(known) as server, socket.create_connection((HOST, server.port), 60) as idle:
        idle.sendall(b"GET /models HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert idle.recv(4096).startswith(b"HTTP/1.1 200")
        server.signal(signal.SIGTERM)
        assert server.ends(20) == 0
