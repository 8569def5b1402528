"""The Open Inference Protocol by the real tritonclient: HTTP and gRPC, JSON and binary tensors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as by_grpc
import tritonclient.http as by_http
from helpers.serving import HOST, Serving
from tritonclient.utils import InferenceServerException

import typica

WAYS = ["http-json", "http-binary", "grpc"]


class Client:
    """One of the ways to ask, behind the same few methods."""

    def __init__(self, server: Serving, way: str) -> None:
        self.binary = way == "http-binary"
        self.module: Any = by_grpc if way == "grpc" else by_http
        port = server.grpc_port if way == "grpc" else server.port
        self.client = self.module.InferenceServerClient(f"{HOST}:{port}")

    def infer(
        self,
        model: str,
        name: str,
        values: np.ndarray,
        datatype: str,
        outputs: Any = None,
        **more: Any,
    ) -> Any:
        given = self.module.InferInput(name, list(values.shape), datatype)
        if self.module is by_http:
            given.set_data_from_numpy(values, binary_data=self.binary)
            wanted = [
                by_http.InferRequestedOutput(output, binary_data=self.binary)
                for output in outputs or ()
            ]
        else:
            given.set_data_from_numpy(values)
            wanted = [by_grpc.InferRequestedOutput(output) for output in outputs or ()]
        return self.client.infer(model, [given], outputs=wanted or None, **more)


@contextlib.contextmanager
def connected(server: Serving, way: str) -> Iterator[Client]:
    client = Client(server, way)
    try:
        yield client
    finally:
        client.client.close()


@pytest.fixture(params=WAYS)
def client(request: pytest.FixtureRequest, server: Serving) -> Iterator[Client]:
    with connected(server, request.param) as client:
        yield client


@pytest.mark.parametrize("name", ["ctm", "raw", "knn"])
@pytest.mark.parametrize("datatype", ["FP32", "FP64"])
def test_rows(client: Client, known, name: str, datatype: str) -> None:
    rows = np.concatenate([known.rows[:7], known.strange[:3]])
    rows = rows.astype(np.float32 if datatype == "FP32" else np.float64)
    expected = typica.load(known.file(name)).judge(rows)
    wanted = ["score", "typical", "why"]
    if expected.nearest is not None:
        wanted.append("nearest")
    found = client.infer(name, "features", rows, datatype, wanted, request_id="7")
    np.testing.assert_array_equal(found.as_numpy("typical"), expected.typical)
    np.testing.assert_allclose(found.as_numpy("score"), expected.score, rtol=1e-6)
    if expected.nearest is not None:
        nearest = [
            text.decode() if isinstance(text, bytes) else text for text in found.as_numpy("nearest")
        ]
        assert nearest == [str(value) for value in expected.nearest.tolist()]
    told = found.get_response()
    assert (told["id"] if isinstance(told, dict) else told.id) == "7"


def test_whole_numbers_and_half_precision(server: Serving, known) -> None:
    rows = np.round(10 * known.rows[:4])
    expected = typica.load(known.file("ctm")).judge(rows.astype(np.float64)).score
    for way in WAYS:
        with connected(server, way) as client:
            for dtype, datatype in ((np.int32, "INT32"), (np.uint8, "UINT8"), (np.int64, "INT64")):
                found = client.infer("ctm", "features", rows.astype(dtype), datatype, ["score"])
                np.testing.assert_allclose(found.as_numpy("score"), expected, rtol=1e-5)
            if way != "http-json":  # tritonclient sends half precision as bytes alone
                found = client.infer("ctm", "features", rows.astype(np.float16), "FP16", ["score"])
                np.testing.assert_allclose(found.as_numpy("score"), expected, rtol=1e-3)


def test_all_outputs(client: Client, known) -> None:
    found = client.infer("ctm", "features", known.rows[:2], "FP32")
    p_values = typica.load(known.file("ctm")).p_values(known.rows[:2])
    np.testing.assert_allclose(found.as_numpy("p_value"), p_values)
    assert found.as_numpy("why") is None
    assert client.infer("raw", "features", known.rows[:2], "FP32").as_numpy("p_value") is None


def test_images(client: Client, known) -> None:
    photos = [known.photos[i] for i in (0, 50, 90)]
    expected = known.judge(known.images(photos)).score
    pixels = known.images(photos)
    found = client.infer("seen", "images", pixels, "UINT8", ["score", "nearest"])
    np.testing.assert_allclose(found.as_numpy("score"), expected, rtol=1e-5)
    if client.module is by_http and not client.binary:
        return  # texts in JSON are base64; tritonclient would send the bytes as UTF-8
    files = np.array(photos, dtype=object)
    found = client.infer("seen", "images", files, "BYTES", ["score", "nearest"])
    np.testing.assert_allclose(found.as_numpy("score"), expected, rtol=1e-5)
    assert [name.decode() for name in found.as_numpy("nearest")] == ["blue", "green", "red"]


def test_what_is_told(client: Client) -> None:
    asked = client.client
    assert asked.is_server_live() and asked.is_server_ready() and asked.is_model_ready("seen")
    assert not asked.is_model_ready("other")
    told = asked.get_model_metadata("seen")
    inputs = told["inputs"] if isinstance(told, dict) else told.inputs
    names = [given["name"] if isinstance(given, dict) else given.name for given in inputs]
    assert names == ["features", "images"]
    server = asked.get_server_metadata()
    assert (server["name"] if isinstance(server, dict) else server.name) == "typica"


@pytest.mark.parametrize(
    ("model", "name", "shape", "reason"),
    [
        ("other", "features", (1, 16), "is not here"),
        ("ctm", "features", (1, 15), "one row of 16"),
        ("ctm", "pictures", (1, 16), "unknown"),
        ("ctm", "images", (1, 16), "images"),
    ],
)
def test_what_is_refused(
    client: Client, model: str, name: str, shape: tuple[int, int], reason: str
) -> None:
    with pytest.raises(InferenceServerException, match=reason) as refused:
        client.infer(model, name, np.zeros(shape, np.float32), "FP32")
    expected = ("404", "NOT_FOUND") if model == "other" else ("400", "INVALID_ARGUMENT")
    assert refused.value.status().rpartition(".")[2] in expected


def test_tensors_that_are_not_whole(server: Serving) -> None:
    with connected(server, "grpc") as client:
        given = by_grpc.InferInput("features", [1, 16], "FP32")
        given._raw_content = b"\0" * 63
        with pytest.raises(InferenceServerException, match="63 bytes for FP32"):
            client.client.infer("ctm", [given])
        given = by_grpc.InferInput("images", [2], "BYTES")
        given._raw_content = b"\x05\0\0\0abcde\x09\0\0\0abc"
        with pytest.raises(InferenceServerException, match="end within a text"):
            client.client.infer("ctm", [given])


def test_typed_contents(server: Serving, known) -> None:
    """Tensors in the message's own fields, as other clients than tritonclient send them."""
    import grpc
    from tritonclient.grpc import service_pb2, service_pb2_grpc

    tensor = service_pb2.ModelInferRequest.InferInputTensor
    contents = service_pb2.InferTensorContents(fp32_contents=known.rows[0].tolist())
    request = service_pb2.ModelInferRequest(
        model_name="ctm",
        inputs=[tensor(name="features", datatype="FP32", shape=[1, 16], contents=contents)],
    )
    with grpc.insecure_channel(f"{HOST}:{server.grpc_port}") as channel:
        answer = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request)
    found = {output.name: output.contents for output in answer.outputs}
    expected = typica.load(known.file("ctm")).judge(known.rows[:1])
    assert found["score"].fp64_contents[0] == pytest.approx(expected.score[0], rel=1e-6)
    assert list(found["typical"].bool_contents) == expected.typical.tolist()
    assert found["nearest"].bytes_contents[0].decode() == str(expected.nearest[0])
