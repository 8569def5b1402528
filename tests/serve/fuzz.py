"""Bodies bent and broken at random, sent to a real server: each gets an answer, and none a 5xx.

    python tests/serve/fuzz.py --cases 10000 --seed 0

The bodies depend on the seed alone. The memory of the server is looked at after a part of them and
at the end.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import http.client
import io
import json
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import numpy as np
from PIL import Image
from tritonclient.grpc import service_pb2, service_pb2_grpc

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.serving import HOST, MODEL, SOURCE, Serving, form, serving, tensor
from helpers.tinynet import write_images

WIDTH = 16
JUNK = [
    None, True, 0, -1, 10**30, -(10**400), 1e308, float("nan"), float("inf"),
    "", "x" * 5000, "\ud800", "\0", "é" * 10,
    [], {}, [[]], [None], {"a": {"b": [1, 2]}}, [[1], [2, 3]], [1, "2"], 2**63, 0.5,
]  # fmt: skip
KINDS = ["png", "jpeg", "gif", "bmp", "webp", "tiff", "ppm"]
TYPES = [
    "BOOL",
    "UINT8",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "UINT64",
    "FP16",
    "FP32",
    "FP64",
    "BYTES",
    "FP8",
    "",
]
FINE = ("OK", "INVALID_ARGUMENT", "NOT_FOUND", "RESOURCE_EXHAUSTED")


class Sent(NamedTuple):
    """One request over HTTP."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Fuzz:
    """Makes requests of a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.images = [self._image(kind) for kind in KINDS]

    def next(self) -> Sent | Any:
        """Return a request: over HTTP, or a message for gRPC."""
        makers: list[Callable[[], Any]] = [
            self.infer, self.infer, self.binary, self.score, self.form, self.form,
            self.octets, self.message, self.anything,
        ]  # fmt: skip
        return self.rng.choice(makers)()

    def _image(self, kind: str) -> bytes:
        file = io.BytesIO()
        pixels = np.random.default_rng(len(kind)).integers(256, size=(9, 11, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(file, kind)
        return file.getvalue()

    def values(self) -> dict[str, Any]:
        """Return a good request of the protocol."""
        if self.rng.random() < 0.5:
            return {"inputs": [tensor("features", [[self.rng.random() for _ in range(WIDTH)]])]}
        text = base64.b64encode(self.broken(self.rng.choice(self.images))).decode()
        return {
            "inputs": [{"name": "images", "datatype": "BYTES", "shape": [1], "data": [text]}],
            "outputs": [{"name": "score"}],
        }

    def bent(self, value: Any) -> Any:
        """Return a JSON value with some of its parts replaced, left out or repeated."""
        if self.rng.random() < 0.03:
            return self.rng.choice(JUNK)
        if isinstance(value, dict):
            kept = {key: self.bent(item) for key, item in value.items() if self.rng.random() > 0.03}
            if self.rng.random() < 0.1:
                kept[self.rng.choice(["parameters", "id", "outputs", "data", "shape", "x"])] = (
                    self.rng.choice(JUNK)
                )
            return kept
        if isinstance(value, list) and len(value) < 8:
            return [self.bent(item) for item in value] * self.rng.choice([1, 1, 1, 2])
        return value

    def broken(self, data: bytes) -> bytes:
        """Return bytes, some changed, left out, repeated or cut off; or all as they were."""
        kept = bytearray(data)
        for _ in range(self.rng.choice([0, 1, 1, 3, 10])):
            place = self.rng.randrange(len(kept) + 1)
            what = self.rng.randrange(5)
            if what == 0:
                kept[place:place] = self.rng.randbytes(self.rng.randrange(1, 9))
            elif what == 1:
                del kept[place : place + self.rng.randrange(1, 20)]
            elif what == 2:
                del kept[place:]
            elif what == 3:
                kept[place:place] = kept[: self.rng.randrange(50)]
            elif place < len(kept):
                kept[place] = self.rng.randrange(256)
        return bytes(kept)

    def model(self) -> str:
        return self.rng.choice(["ctm"] * 6 + ["seen"] * 6 + ["other", ""])

    def text(self, value: Any) -> bytes:
        return json.dumps(value).encode("utf-8", "surrogatepass")

    def infer(self) -> Sent:
        body = self.text(self.bent(self.values()))
        body = body if self.rng.random() < 0.7 else self.broken(body)
        return Sent(
            "POST", f"/v2/models/{self.model()}/infer", {"content-type": "application/json"}, body
        )

    def binary(self) -> Sent:
        raw = self.broken(np.ones((1, WIDTH), np.float32).tobytes())
        size = self.rng.choice([len(raw), 64, 0, -1, 10**12, None, "64"])
        given = {
            "name": self.rng.choice(["features", "images"]),
            "datatype": self.rng.choice(TYPES),
            "shape": self.rng.choice([[1, WIDTH], [1], [64], [], [0], [-1]]),
        }
        values = {
            "inputs": [{**given, "parameters": {"binary_data_size": size}}],
            "parameters": {"binary_data_output": self.rng.choice([True, False, 3])},
        }
        head = self.text(values if self.rng.random() < 0.6 else self.bent(values))
        told = self.rng.choice(
            [str(len(head)), str(len(head)), str(len(head) + 1), "-1", "9" * 30, "x", "0"]
        )
        headers = {
            "inference-header-content-length": told,
            "content-type": "application/octet-stream",
        }
        return Sent("POST", f"/v2/models/{self.model()}/infer", headers, head + raw)

    def query(self) -> str:
        asked = self.rng.choice(
            ["", "&explain=1", "&preview=1", "&explain=2", "&explain=1&preview=0", "&%00=%ff"]
        )
        return f"/score?model={self.model()}{asked}"

    def score(self) -> Sent:
        rows = {
            "features": [
                [self.rng.random() for _ in range(WIDTH)] for _ in range(self.rng.randrange(4))
            ]
        }
        body = self.text(self.bent(rows))
        body = body if self.rng.random() < 0.7 else self.broken(body)
        return Sent("POST", self.query(), {"content-type": "application/json"}, body)

    def form(self) -> Sent:
        files = [
            (
                self.rng.choice(["a.png", "", "é", "x" * 300]),
                self.broken(self.rng.choice(self.images)),
            )
            for _ in range(self.rng.randrange(1, 4))
        ]
        body, kind = form(*files)
        if self.rng.random() < 0.5:
            body = self.broken(body)
        if self.rng.random() < 0.2:
            kind = self.rng.choice(
                [
                    kind[:-1],
                    "multipart/form-data",
                    kind + "; charset=zip",
                    "multipart/form-data; boundary=" + "-" * 300,
                    kind.upper(),
                ]
            )
        return Sent("POST", self.query(), {"content-type": kind}, body)

    def octets(self) -> Sent:
        kind = self.rng.choice(
            [
                "application/octet-stream",
                "image/png",
                "image/svg+xml",
                "text/plain",
                "",
                "application/json; charset=utf-7",
            ]
        )
        return Sent(
            "POST", self.query(), {"content-type": kind}, self.broken(self.rng.choice(self.images))
        )

    def anything(self) -> Sent:
        path = self.rng.choice(
            [
                "/",
                "/score",
                "/models",
                "/models/%2e%2e",
                "/stream?model=x",
                "/metrics",
                "/v2",
                "/v2/models/ctm",
                "/v2/repository/index",
                "/openapi.json",
                "//",
                "/%00",
                "/models/" + "a" * 3000,
            ]
        )
        method = self.rng.choice(["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"])
        headers = self.rng.choice(
            [
                {},
                {"origin": "http://["},
                {"accept-encoding": "gzip"},
                {"content-encoding": "br"},
                {"authorization": "Basic ="},
                {"range": "bytes=0-1"},
            ]
        )
        return Sent(method, path, dict(headers), self.rng.randbytes(self.rng.randrange(50)))

    def message(self) -> Any:
        """Return a message for gRPC."""
        kind = service_pb2.ModelInferRequest
        datatype, shape = (
            self.rng.choice(TYPES),
            self.rng.choice([[1, WIDTH], [1], [-1, 2], [0, 2**62], [2**62, 2**62], [1] * 40, []]),
        )
        given = kind.InferInputTensor(
            name=self.rng.choice(["features", "images", ""]), datatype=datatype, shape=shape
        )
        message = kind(
            model_name=self.model(),
            id=self.rng.choice(["", "é"]),
            inputs=[given] * self.rng.choice([0, 1, 1, 1, 2]),
        )
        if self.rng.random() < 0.5:
            for _ in range(self.rng.choice([1, 1, 2])):
                message.raw_input_contents.append(self.broken(np.ones(WIDTH, np.float32).tobytes()))
        elif message.inputs:
            message.inputs[0].contents.fp32_contents.extend([1.0] * self.rng.choice([0, WIDTH, 17]))
        if self.rng.random() < 0.3:
            message.outputs.append(
                kind.InferRequestedOutputTensor(name=self.rng.choice(["score", "why", "x"]))
            )
        return message


class Report(NamedTuple):
    """What came of it: answers by status, the memory in between and at the end, in bytes."""

    statuses: Counter[str]
    before: int
    after: int


def send(server: Serving, cases: int, seed: int) -> Report:
    """Send so many requests; the first of a 5xx, or without an answer, is an AssertionError."""
    fuzz, statuses, before = Fuzz(seed), Counter[str](), 0
    connection = http.client.HTTPConnection(HOST, server.port, timeout=60)
    channel = grpc.insecure_channel(f"{HOST}:{server.grpc_port}")
    stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
    with contextlib.closing(connection), contextlib.closing(channel):
        for number in range(cases):
            if number == cases // 2:
                before = server.memory()
            made = fuzz.next()
            status = by_http(connection, made) if isinstance(made, Sent) else by_grpc(stub, made)
            statuses[status] += 1
            assert status in FINE or (status.isdigit() and int(status) < 500), (
                number,
                status,
                made,
            )
        return Report(statuses, before, server.memory())


def by_http(connection: http.client.HTTPConnection, sent: Sent) -> str:
    try:
        connection.request(sent.method, sent.path, sent.body, sent.headers)
        answer = connection.getresponse()
    except (http.client.InvalidURL, UnicodeEncodeError):
        return "0"  # which the client itself refuses to send
    answer.read()
    return str(answer.status)


def by_grpc(stub: Any, message: Any) -> str:
    try:
        stub.ModelInfer(message, timeout=60)
    except grpc.RpcError as error:
        return str(error.code().name)
    return "OK"


def detectors(folder: Path) -> list[Path]:
    """Write a detector of features and one of images, with their network."""
    import typica
    from typica.nets import extract

    rng = np.random.default_rng(0)
    labels = np.arange(300) % 3
    rows = rng.random((300, WIDTH)) + 3 * np.eye(3, WIDTH)[labels]
    typica.CTM().fit(rows[:150], labels[:150]).calibrate(rows[150:]).save(
        folder / "ctm.safetensors"
    )
    os.environ |= {"XDG_CONFIG_HOME": str(folder), "TYPICA_HOME": str(folder)}
    (folder / f"{MODEL.partition(':')[0]}.py").write_text(SOURCE)
    sys.path.insert(0, str(folder))
    bank = extract(write_images(folder / "images", each=10), MODEL, folder / "train.bank")
    typica.CTM().fit(bank).calibrate(2 * np.asarray(bank.features)).save(
        folder / "seen.safetensors"
    )
    return [folder / "ctm.safetensors", folder / "seen.safetensors"]


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--cases", type=int, default=10_000)
    asked.add_argument("--seed", type=int, default=0)
    chosen = asked.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files = detectors(Path(folder))
        with serving(*files, "--model", MODEL, env={"PYTHONPATH": folder}) as server:
            report = send(server, chosen.cases, chosen.seed)
            told = ", ".join(
                f"{count} x {status}" for status, count in sorted(report.statuses.items())
            )
            grown = report.after / report.before - 1
            print(f"{chosen.cases} bodies, none a 5xx: {told}")
            print(
                f"memory {report.before / 2**20:.1f} MiB after half of them, "
                f"{report.after / 2**20:.1f} at the end ({100 * grown:+.1f} %)"
            )
            assert grown < 0.05, "the server's memory grows"
            assert not server.events("internal error")


if __name__ == "__main__":
    main()
