"""The folder that `typica serve --write` makes is served by plain `mlserver start`."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc
from helpers.serving import HOST, MODEL, Process, end, eventually, tensor

import typica

MLSERVER = str(Path(sys.executable).with_name("mlserver"))


@pytest.fixture(scope="module")
def ports() -> list[int]:
    """Three ports that are free now."""
    held = [socket.create_server((HOST, 0)) for _ in range(3)]
    found = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return found


@pytest.fixture(scope="module")
def written(known, ports: list[int], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("written") / "repository"
    names = dict(zip(("--port", "--grpc-port", "--metrics-port"), ports, strict=True))
    options = [text for pair in names.items() for text in map(str, pair)]
    files = [known.file("ctm"), known.file("raw"), known.file("seen")]
    command = [
        str(Path(sys.executable).with_name("typica")),
        "serve",
        *map(str, files),
        "--model",
        MODEL,
    ]
    writing = Process([*command, *options, "--write", str(folder)], known.env)
    assert writing.ends(120) == 0, writing.lines
    return folder


@pytest.fixture(scope="module")
def plain(
    known, written: Path, ports: list[int], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Process]:
    """MLServer itself, which knows of Typica by the folder alone.

    The files that were written from are elsewhere.
    """
    moved = tmp_path_factory.mktemp("moved") / "models"
    shutil.copytree(written, moved)
    server = Process([MLSERVER, "start", str(moved)], known.env)
    try:
        eventually(lambda: is_ready(ports[0]), 180)
        yield server
    finally:
        end(server)


def is_ready(port: int) -> bool:
    try:
        return ask(port, "/v2/health/ready")[0] == 200
    except (urllib.error.URLError, ConnectionError):
        return False


def ask(port: int, path: str, values: Any = None) -> tuple[int, bytes]:
    body = None if values is None else json.dumps(values).encode()
    request = urllib.request.Request(
        f"http://{HOST}:{port}{path}", body, {"content-type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_what_is_written(written: Path) -> None:
    told = json.loads((written / "ctm" / "model-settings.json").read_text())
    assert told["implementation"] == "typica.serve.Runtime"
    assert told["parameters"]["uri"] == "./ctm.safetensors"
    settings = json.loads((written / "settings.json").read_text())
    assert (settings["parallel_workers"], settings["host"]) == (0, HOST)
    assert sorted(path.name for path in (written / "monitoring").iterdir()) == [
        "grafana-dashboard.json",
        "prometheus-rules.yml",
    ]


def test_it_answers(plain: Process, ports: list[int], known) -> None:
    expected = typica.load(known.file("ctm")).judge(known.rows[:4])
    status, body = ask(
        ports[0], "/v2/models/ctm/infer", {"inputs": [tensor("features", known.rows[:4])]}
    )
    assert status == 200, body
    found = {output["name"]: output["data"] for output in json.loads(body)["outputs"]}
    np.testing.assert_allclose(found["score"], expected.score, rtol=1e-6)
    assert found["nearest"] == [str(name) for name in expected.nearest.tolist()]
    status, body = ask(
        ports[0], "/v2/models/raw/infer", {"inputs": [tensor("features", known.rows[:4])]}
    )
    assert "p_value" not in [output["name"] for output in json.loads(body)["outputs"]]


def test_it_takes_images(plain: Process, ports: list[int], known) -> None:
    client = tritonclient.grpc.InferenceServerClient(f"{HOST}:{ports[1]}")
    given = tritonclient.grpc.InferInput("images", [2], "BYTES")
    given.set_data_from_numpy(np.array([known.photos[0], known.photos[90]], dtype=object))
    found = client.infer("seen", [given])
    client.close()
    expected = known.judge(known.images([known.photos[0], known.photos[90]]))
    np.testing.assert_allclose(found.as_numpy("score"), expected.score, rtol=1e-5)


def test_it_refuses_with_a_reason(plain: Process, ports: list[int], known) -> None:
    status, body = ask(
        ports[0], "/v2/models/ctm/infer", {"inputs": [tensor("features", known.rows[:1, :3])]}
    )
    assert (status, b"one row of 16" in body) == (400, True)


def test_its_metrics(plain: Process, ports: list[int]) -> None:
    status, body = ask(ports[2], "/metrics")
    assert status == 200
    for name in (
        b'typica_inputs_total{model="ctm"',
        b"typica_score_bucket",
        b"typica_monitor_wealth",
    ):
        assert name in body


def test_it_is_loaded_again_by_mlserver(plain: Process, ports: list[int], known) -> None:
    """The next version begins before the one before it ends: what is told of it stays."""
    for _ in range(2):
        assert ask(ports[0], "/v2/repository/models/ctm/load", {})[0] == 200
    status, body = ask(
        ports[0], "/v2/models/ctm/infer", {"inputs": [tensor("features", known.rows[:4])]}
    )
    assert status == 200, body
    told = ask(ports[2], "/metrics")[1].decode()
    assert 'typica_score_count{model="ctm"} 4.0' in told
    assert ask(ports[0], "/v2/repository/models/ctm/unload", {})[0] == 200
    told = ask(ports[2], "/metrics")[1].decode()
    assert 'typica_detector_info{calibrated="true",detector="ctm",digest' in told  # of seen
    assert 'typica_score_count{model="ctm"}' not in told


WRONG = """
import sys
from typica.serve import Limits, Options, serve, write_repository

file, other, folder = sys.argv[1:]
token = Options(token="0123456789abcdef")
for arguments, options in (((file,), token), ((file, file), None), ((other,), None), ((), None)):
    try:
        write_repository(*arguments, folder=folder, options=options)
    except ValueError as error:
        print(error)
for arguments in ((), (file, file), (other,)):
    try:
        serve(*arguments)
    except ValueError as error:
        print(error)
for wrong in ({"port": -1}, {"port": 1, "grpc_port": 1}, {"metrics_port": 70000}):
    try:
        Options(**wrong)
    except ValueError as error:
        print(error)
try:
    Limits(queue=0)
except ValueError as error:
    print(error)
"""


def test_what_cannot_be_written_or_served(known, tmp_path: Path) -> None:
    """In a process of its own: tritonclient's messages have the names of MLServer's."""
    other = tmp_path / "other.safetensors"
    other.write_text("no detector")
    folder = tmp_path / "repository"
    command = [sys.executable, "-c", WRONG, str(known.file("ctm")), str(other), str(folder)]
    tried = subprocess.run(command, capture_output=True, text=True, check=False)
    reasons = tried.stdout.splitlines()
    expected = [
        "asks for no token",
        "two detectors are called",
        "other.safetensors",
        "no detectors",
    ]
    expected += ["no detectors", "two detectors are called 'ctm'", "other.safetensors"]
    expected += ["port=-1", "two of the ports", "metrics_port=70000", "queue=0"]
    assert len(reasons) == len(expected), tried.stderr + tried.stdout
    for reason, words in zip(reasons, expected, strict=True):
        assert words in reason
    assert not folder.exists()


def test_a_port_that_is_taken(known) -> None:
    with socket.create_server((HOST, 0)) as held:
        taken = str(held.getsockname()[1])
        for option in ("--port", "--grpc-port", "--metrics-port"):
            ports = {"--port": "0", "--grpc-port": "0", "--metrics-port": "0", option: taken}
            options = [text for pair in ports.items() for text in pair]
            command = [
                str(Path(sys.executable).with_name("typica")),
                "serve",
                str(known.file("ctm")),
            ]
            tried = Process([*command, *options], known.env)
            assert tried.ends(120) == 2, tried.lines
            told = " ".join("".join(tried.lines).split())
            assert f"{option} {taken}" in told and "cannot be listened on" in told
