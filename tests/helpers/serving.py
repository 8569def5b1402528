"""A real `typica serve` in its own process, and the networks its tests hold up and look into."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"
STARTED = 180  # seconds, on a busy machine

# A network that waits while the file at GATE is there, and notes how many images it was given.
MODEL = "gated:network"
SOURCE = """
import os
import time
from pathlib import Path

import torch
from torch import nn
from typica.data import Preprocessing


class Gate(nn.Module):
    def forward(self, images):
        gate = os.environ.get("GATE")
        if gate is not None:
            with Path(gate).with_suffix(".seen").open("a") as seen:
                print(len(images), file=seen)
        while gate is not None and Path(gate).exists():
            time.sleep(0.005)
        return images


def network():
    torch.manual_seed(0)
    body = nn.Sequential(Gate(), nn.Conv2d(3, 12, 3, stride=2), nn.ReLU(), \
nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return nn.Sequential(body, nn.Linear(12, 3)), Preprocessing(8, 8)
"""


class Answer:
    """What a server answered: status, headers by their names in small letters, body."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body

    def json(self) -> Any:
        return json.loads(self.body)

    def __repr__(self) -> str:
        return f"{self.status} {self.body[:300]!r}"


class Process:
    """A server in a process of its own; its log is read as it is written."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        self.log: list[dict[str, Any]] = []
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
            env={**os.environ, **(env or {})},
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            for line in lines:
                with self._changed:
                    self.lines.append(line)
                    with contextlib.suppress(ValueError):
                        self.log.append(json.loads(line))
                    self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def events(self, name: str) -> list[dict[str, Any]]:
        with self._changed:
            return [
                line for line in self.log if isinstance(line, dict) and line.get("event") == name
            ]

    def wait_for(self, event: str, count: int = 1, seconds: float = STARTED) -> dict[str, Any]:
        """Return the count-th line of an event, once it is there."""
        deadline = time.monotonic() + seconds
        while len(found := self.events(event)) < count:
            left = deadline - time.monotonic()
            ended = not self._reader.is_alive()
            assert left > 0 and not ended, f"no {event!r} in\n{''.join(self.lines[-30:])}"
            with self._changed:
                self._changed.wait(min(left, 0.2))
        return found[count - 1]

    def ends(self, seconds: float = 60) -> int:
        """Return the exit code, once there is one."""
        code = self.process.wait(seconds)
        self._reader.join(seconds)
        return code

    def signal(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def memory(self) -> int:
        """Return the bytes of its resident set."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        [line] = [line for line in status.splitlines() if line.startswith("VmRSS")]
        return 1024 * int(line.split()[1])


class Serving(Process):
    """`typica serve`, listening; ports are those that were free."""

    def __init__(self, *arguments: str | Path, env: Mapping[str, str] | None = None) -> None:
        free = ["--port", "0", "--grpc-port", "0", "--metrics-port", "0"]
        command = [str(Path(sys.executable).with_name("typica")), "serve"]
        super().__init__([*command, *map(str, arguments), *free], env)
        self.where = self.wait_for("listening")
        self.port, self.grpc_port = self.where["port"], self.where["grpc_port"]
        self.metrics_port = self.where["metrics_port"]

    def ask(
        self,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        method: str | None = None,
        port: int | None = None,
        timeout: float = 120,
    ) -> Answer:
        """Send a request: GET, or POST where there is a body."""
        connection = http.client.HTTPConnection(HOST, port or self.port, timeout=timeout)
        with contextlib.closing(connection):
            method = method or ("GET" if body is None else "POST")
            connection.request(method, path, body, dict(headers or {}))
            found = connection.getresponse()
            named = {name.lower(): value for name, value in found.getheaders()}
            return Answer(found.status, named, found.read())

    def post(self, path: str, values: Any, headers: Mapping[str, str] | None = None) -> Answer:
        """Send JSON values."""
        sent = {"content-type": "application/json", **(headers or {})}
        return self.ask(path, json.dumps(values).encode(), sent)

    def score(self, *files: tuple[str, bytes], query: str = "", **more: Any) -> Answer:
        """Send files to /score as a form."""
        body, kind = form(*files)
        headers = {"content-type": kind, **more.pop("headers", {})}
        return self.ask(f"/score{query}", body, headers, **more)

    def infer(self, model: str, rows: Any, **more: Any) -> Answer:
        """Send rows of features as JSON of the Open Inference Protocol."""
        values = {"inputs": [tensor("features", rows)], **more}
        return self.post(f"/v2/models/{model}/infer", values)

    def metrics(self, headers: Mapping[str, str] | None = None) -> dict[str, float]:
        """Return the samples of the metrics port by name and labels, as they are written."""
        text = self.ask("/metrics", headers=headers, port=self.metrics_port).body.decode()
        found = {}
        for line in text.splitlines():
            if not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                found[name] = float(value)
        return found


@contextlib.contextmanager
def serving(*arguments: str | Path, env: Mapping[str, str] | None = None) -> Iterator[Serving]:
    """Serve, and end it whatever happens."""
    server = Serving(*arguments, env=env)
    try:
        yield server
    finally:
        end(server)


def end(server: Process) -> None:
    if server.process.poll() is None:
        server.signal()
        try:
            server.process.wait(30)
        except subprocess.TimeoutExpired:
            server.process.kill()
    server.ends()


def form(*files: tuple[str, bytes]) -> tuple[bytes, str]:
    """Return files as multipart/form-data, and its content type."""
    boundary = uuid.uuid4().hex
    parts = []
    for name, data in files:
        head = (
            f"--{boundary}\r\n"
            f'Content-Disposition: form-data; name="files"; filename="{name}"\r\n\r\n'
        )
        parts.append(head.encode() + data + b"\r\n")
    parts.append(f"--{boundary}--\r\n".encode())
    return b"".join(parts), f"multipart/form-data; boundary={boundary}"


def tensor(name: str, rows: Any, datatype: str = "FP32") -> dict[str, Any]:
    """Return rows as an input of the Open Inference Protocol."""
    rows = [list(map(float, row)) for row in rows]
    shape = [len(rows), len(rows[0])] if rows else [0, 0]
    flat = [value for row in rows for value in row]
    return {"name": name, "datatype": datatype, "shape": shape, "data": flat}


def eventually(true: Callable[[], Any], seconds: float = 60) -> Any:
    """Return what a function gives once that is true."""
    deadline = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found
