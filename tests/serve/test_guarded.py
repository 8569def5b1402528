"""Who may ask, what is written down of it, and that nothing is sent elsewhere."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import tritonclient.grpc
import tritonclient.http
from helpers.serving import HOST, MODEL, Serving, serving, tensor
from tritonclient.utils import InferenceServerException

TOKEN = "0123456789abcdef0123456789abcdef"
BEARER = {"authorization": f"Bearer {TOKEN}"}

# Python that refuses to connect to anything but this machine, or to ask for any other name.
LOOPBACK_ONLY = """
import ipaddress, os, sys

def refuse(event, arguments):
    if event == "socket.connect":
        address = arguments[1]
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        address = arguments
    else:
        return
    if isinstance(address, tuple) and str(address[0]) not in ("127.0.0.1", "::1", "localhost"):
        os.write(2, f"OUTBOUND {event} {address!r}\\n".encode())
        raise PermissionError(f"{event} {address!r}")

sys.addaudithook(refuse)
"""

# The same for code that is not Python, such as gRPC's.
CONNECT_C = r"""
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int connect(int fd, const struct sockaddr *to, socklen_t size) {
    static int (*real)(int, const struct sockaddr *, socklen_t);
    if (!real) real = dlsym(RTLD_NEXT, "connect");
    int other = 0;
    if (to->sa_family == AF_INET)
        other = (ntohl(((struct sockaddr_in *)to)->sin_addr.s_addr) >> 24) != 127;
    if (to->sa_family == AF_INET6)
        other = !IN6_IS_ADDR_LOOPBACK(&((struct sockaddr_in6 *)to)->sin6_addr);
    if (other) {
        const char *said = "OUTBOUND connect\n";
        if (write(2, said, strlen(said)) < 0) return -1;
        errno = EPERM;
        return -1;
    }
    return real(fd, to, size);
}
"""


def refusing(folder: Path) -> dict[str, str]:
    """Return the environment of processes that can reach this machine alone."""
    (folder / "sitecustomize.py").write_text(LOOPBACK_ONLY)
    env = {"PYTHONPATH": str(folder)}
    (folder / "connect.c").write_text(CONNECT_C)
    library = folder / "connect.so"
    try:
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-o", library, folder / "connect.c", "-ldl"], check=True
        )
    except (FileNotFoundError, subprocess.CalledProcessError):
        return env  # without a compiler, Python's own connections are watched
    return {**env, "LD_PRELOAD": str(library)}


@pytest.fixture(scope="module")
def guarded(known, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server that asks for a token and can reach this machine alone."""
    folder = tmp_path_factory.mktemp("guarded")
    token = folder / "token"
    token.write_text(TOKEN + "\n")
    env = {**known.env, **refusing(folder)}
    env["PYTHONPATH"] = os.pathsep.join([str(folder), known.env["PYTHONPATH"]])
    files = [known.file("ctm"), known.file("seen")]
    with serving(*files, "--token-file", token, "--model", MODEL, env=env) as server:
        yield server


PATHS = [
    ("/score?model=ctm", b"{}"),
    ("/models", None),
    ("/models/ctm", None),
    ("/stream", None),
    ("/metrics", None),
    ("/openapi.json", None),
    ("/v2", None),
    ("/v2/models/ctm", None),
    ("/v2/models/ctm/ready", None),
    ("/v2/models/ctm/infer", b"{}"),
    ("/v2/repository/index", b"{}"),
    ("/nowhere", None),
]


@pytest.mark.parametrize(("path", "body"), PATHS)
def test_every_path_asks_for_the_token(guarded: Serving, path: str, body: bytes | None) -> None:
    wrong = [
        {},
        {"authorization": "Bearer other"},
        {"authorization": f"Bearer {TOKEN}x"},
        {"authorization": f"Digest {TOKEN}"},
        {"authorization": "Basic !"},
        {"authorization": f"Bearer {TOKEN[:-1]}\xe9"},
    ]
    for headers in wrong:
        answer = guarded.ask(path, body, headers)
        assert answer.status == 401, (path, headers)
        assert "Bearer" in answer.headers["www-authenticate"]
    assert guarded.ask(path, body, BEARER).status != 401


def test_the_token_as_a_browser_sends_it(guarded: Serving) -> None:
    password = base64.b64encode(f"anyone:{TOKEN}".encode()).decode()
    assert guarded.ask("/models", headers={"authorization": f"Basic {password}"}).status == 200


def test_the_metrics_port_asks_for_the_token(guarded: Serving) -> None:
    assert guarded.ask("/metrics", port=guarded.metrics_port).status == 401
    assert guarded.ask("/metrics", port=guarded.metrics_port, headers=BEARER).status == 200


def test_health_is_told_to_everyone(guarded: Serving) -> None:
    assert guarded.ask("/v2/health/live").status == guarded.ask("/v2/health/ready").status == 200


def test_grpc_asks_for_the_token(guarded: Serving, known) -> None:
    client = tritonclient.grpc.InferenceServerClient(f"{HOST}:{guarded.grpc_port}")
    given = tritonclient.grpc.InferInput("features", [1, 16], "FP32")
    given.set_data_from_numpy(known.rows[:1])
    assert client.is_server_live()
    for ask in (
        lambda headers: client.infer("ctm", [given], headers=headers),
        lambda headers: client.get_model_metadata("ctm", headers=headers),
        lambda headers: client.get_server_metadata(headers=headers),
        lambda headers: client.is_model_ready("ctm", headers=headers),
    ):
        for headers in (None, {"authorization": "Bearer other"}):
            with pytest.raises(InferenceServerException) as refused:
                ask(headers)
            assert refused.value.status() == "StatusCode.UNAUTHENTICATED"
        assert ask(BEARER)
    for ask in (
        client.get_model_repository_index,
        lambda headers: client.load_model("ctm", headers=headers),
    ):
        with pytest.raises(InferenceServerException) as refused:
            ask(headers=BEARER)
        assert refused.value.status() == "StatusCode.UNIMPLEMENTED"
    client.close()


def test_tritonclient_with_the_token(guarded: Serving, known) -> None:
    client = tritonclient.http.InferenceServerClient(f"{HOST}:{guarded.port}")
    given = tritonclient.http.InferInput("features", [1, 16], "FP32")
    given.set_data_from_numpy(known.rows[:1])
    assert client.infer("ctm", [given], headers=BEARER).as_numpy("typical").shape == (1,)
    with pytest.raises(InferenceServerException, match="token"):
        client.infer("ctm", [given])
    client.close()


def test_the_log_holds_no_content(guarded: Serving, known) -> None:
    """Neither images, nor their names, nor features, nor the token, nor what a query holds."""
    name = "the-name-of-a-patient.png"
    row = [0.123456789] * 16
    guarded.score((name, known.photos[0]), (name, b"broken"), query="?model=seen", headers=BEARER)
    guarded.post("/score?model=ctm&explain=secret", {"features": [row]}, BEARER)
    guarded.post(
        "/v2/models/ctm/infer",
        {"inputs": [tensor("features", [row])], "id": "of-a-patient"},
        BEARER,
    )
    guarded.post("/v2/models/ctm/infer", {"inputs": [{"name": "of-a-patient"}]}, BEARER)
    guarded.ask("/v2/models/ctm/infer", b"of-a-patient", BEARER)
    guarded.ask("/models", headers={"authorization": "Bearer of-a-patient"})
    last = guarded.ask("/models/ctm", headers=BEARER)
    assert last.status == 200
    guarded.wait_for("request", 7)
    written = "".join(guarded.lines)
    for secret in (name, "of-a-patient", "0.123456", "secret", TOKEN, TOKEN[:12]):
        assert secret not in written
    assert len(guarded.log) == len(guarded.lines)  # each line is one JSON object
    for line in guarded.events("request"):
        assert set(line) == {
            "time",
            "level",
            "logger",
            "event",
            "method",
            "path",
            "status",
            "bytes",
            "seconds",
        }


def test_nothing_was_sent_elsewhere(guarded: Serving, known) -> None:
    """After all that was asked above, and more; the guard itself is tried first."""
    env = {
        **os.environ,
        **{
            name: value
            for name, value in guarded_env(guarded).items()
            if name in ("PYTHONPATH", "LD_PRELOAD")
        },
    }
    code = "import socket; socket.create_connection(('192.0.2.1', 80), 1)"
    tried = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False
    )
    assert "OUTBOUND" in tried.stderr
    native = (
        "import grpc; "
        "grpc.channel_ready_future(grpc.insecure_channel('192.0.2.1:80')).result(timeout=2)"
    )
    if "LD_PRELOAD" in env:
        tried = subprocess.run(
            [sys.executable, "-c", native], env=env, capture_output=True, text=True, check=False
        )
        assert "OUTBOUND connect" in tried.stderr
    rows = {"features": known.rows[:2].tolist()}
    assert guarded.post("/score?model=ctm&explain=1", rows, BEARER).status == 200
    assert (
        guarded.score(("a", known.photos[0]), query="?model=seen&explain=1", headers=BEARER).status
        == 200
    )
    assert not [line for line in guarded.lines if "OUTBOUND" in line]


def guarded_env(server: Serving) -> dict[str, str]:
    raw = Path(f"/proc/{server.process.pid}/environ").read_bytes().decode()
    return dict(entry.split("=", 1) for entry in raw.split("\0") if "=" in entry)


@pytest.mark.parametrize(
    "text", ["", "short", "two words of some length", "with\nanother line, long enough"]
)
def test_what_is_no_token(known, tmp_path: Path, text: str) -> None:
    from typica.serve import read_token

    (tmp_path / "token").write_text(text)
    with pytest.raises(ValueError, match="not a token"):
        read_token(tmp_path / "token")
    with pytest.raises(ValueError, match="no token can be read"):
        read_token(tmp_path / "nowhere")
