"""Verdicts over HTTP, as JSON and in forms: the library's, and a reason for what is refused."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import numpy as np
import pytest
from helpers.images import encoded, random_pixels
from helpers.serving import HOST, Serving, form, tensor

import typica

JSON = {"content-type": "application/json"}


def outputs(answer) -> dict[str, list]:
    assert answer.status == 200, answer
    return {output["name"]: output["data"] for output in answer.json()["outputs"]}


@pytest.mark.parametrize("name", ["ctm", "raw", "knn"])
def test_rows_to_score(server: Serving, known, name: str) -> None:
    rows = np.concatenate([known.rows[:5], known.strange[:5]])
    expected = typica.load(known.file(name)).judge(rows.astype(np.float64))
    answer = server.post(f"/score?model={name}", {"features": rows.tolist()})
    assert answer.status == 200, answer
    assert answer.json()["model"] == name
    results = answer.json()["results"]
    assert [row["verdict"] for row in results] == expected.verdict.tolist()
    np.testing.assert_allclose([row["score"] for row in results], expected.score, rtol=1e-9)
    assert [row["why"] for row in results] == expected.why.tolist()
    if name == "raw":
        assert {row["p_value"] for row in results} == {None}
    else:
        np.testing.assert_allclose([row["p_value"] for row in results], expected.p_value)


@pytest.mark.parametrize("name", ["ctm", "raw", "knn"])
@pytest.mark.parametrize("datatype", ["FP32", "FP64"])
def test_rows_to_infer(server: Serving, known, name: str, datatype: str) -> None:
    rows = np.concatenate([known.rows[5:9], known.strange[:2]])
    rows = rows.astype(np.float32 if datatype == "FP32" else np.float64)
    expected = typica.load(known.file(name)).judge(rows)
    values = {"inputs": [tensor("features", rows, datatype)], "id": "mine"}
    answer = server.post(f"/v2/models/{name}/infer", values)
    assert answer.json()["id"] == "mine"
    found = outputs(answer)
    np.testing.assert_allclose(found["score"], expected.score, rtol=1e-6)
    assert found["typical"] == expected.typical.tolist()
    assert ("p_value" in found) == (name != "raw")


def test_nested_values_and_outputs_of_choice(server: Serving, known) -> None:
    values = {**tensor("features", known.rows[:2]), "data": known.rows[:2].tolist()}
    wanted = [{"name": "why"}, {"name": "score"}]
    answer = server.post("/v2/models/ctm/infer", {"inputs": [values], "outputs": wanted})
    found = outputs(answer)
    assert list(found) == ["why", "score"]
    assert found["why"][0].startswith("score 0.9")


def test_what_a_detector_does_not_know_is_refused(server: Serving, known) -> None:
    answer = server.infer("raw", known.rows[:1], outputs=[{"name": "p_value"}])
    assert (answer.status, "no 'p_value'" in answer.json()["error"]) == (400, True)
    described = server.ask("/v2/models/raw").json()
    assert "p_value" not in [output["name"] for output in described["outputs"]]
    described = server.ask("/v2/models/ctm").json()
    assert "p_value" in [output["name"] for output in described["outputs"]]


def test_several_images_also_broken_ones(server: Serving, known) -> None:
    files = [
        ("a.png", known.photos[0]),
        ("b.png", b"no image"),
        ("c.png", known.photos[50][:60]),
        ("d.png", known.photos[90]),
    ]
    answer = server.score(*files, query="?model=seen")
    assert answer.status == 200, answer
    results = answer.json()["results"]
    assert [row["file"] for row in results] == ["a.png", "b.png", "c.png", "d.png"]
    assert ["error" in row for row in results] == [False, True, True, False]
    assert "not an image" in results[1]["error"]
    assert "cut short" in results[2]["error"]
    assert (results[0]["nearest"], results[3]["nearest"]) == ("blue", "red")


def test_images_are_judged_as_the_library_does(server: Serving, known) -> None:
    noise = [encoded(random_pixels(8, 8, seed=i)) for i in range(20)]
    photos = [*known.photos[:10], *noise]
    images = known.images(photos)
    answer = server.score(
        *[(f"{i}.png", photo) for i, photo in enumerate(photos)], query="?model=seen"
    )
    results = answer.json()["results"]
    expected = known.judge(images)
    np.testing.assert_allclose([row["score"] for row in results], expected.score, rtol=1e-5)
    assert [row["verdict"] for row in results] == expected.verdict.tolist()


def test_one_image_as_a_body(server: Serving, known) -> None:
    answer = server.ask("/score?model=seen", known.photos[0], {"content-type": "image/png"})
    assert answer.json()["results"][0]["nearest"] == "blue"
    answer = server.ask("/score?model=seen", b"no image", {"content-type": "image/png"})
    assert answer.status == 400
    assert "not an image" in answer.json()["results"][0]["error"]


def test_images_as_tensors(server: Serving, known) -> None:
    by_form = server.score(("a", known.photos[0]), ("b", known.photos[50]), query="?model=seen")
    scores = [row["score"] for row in by_form.json()["results"]]
    expected = pytest.approx(scores, rel=1e-5)  # a batch may be run in one part or in two
    texts = [base64.b64encode(photo).decode() for photo in (known.photos[0], known.photos[50])]
    images = {"name": "images", "datatype": "BYTES", "shape": [2], "data": texts}
    answer = server.post("/v2/models/seen/infer", {"inputs": [images]})
    assert outputs(answer)["score"] == expected
    pixels = known.images([known.photos[0], known.photos[50]])
    images = {
        "name": "images",
        "datatype": "UINT8",
        "shape": [2, 8, 8, 3],
        "data": pixels.ravel().tolist(),
    }
    answer = server.post("/v2/models/seen/infer", {"inputs": [images]})
    assert outputs(answer)["score"] == expected
    broken = {
        "name": "images",
        "datatype": "BYTES",
        "shape": [2],
        "data": [texts[0], texts[1][:40]],
    }
    answer = server.post("/v2/models/seen/infer", {"inputs": [broken]})
    assert (answer.status, "image 1" in answer.json()["error"]) == (400, True)


def test_explanations_and_previews(server: Serving, known) -> None:
    before = server.ask("/stream").json()["models"]["ctm"]["inputs"]
    rows = {"features": known.strange[:2].tolist()}
    row = server.post("/score?model=ctm&explain=1&preview=1", rows).json()["results"][0]
    assert row["explanation"]["text"].startswith("atypical")
    assert server.ask("/stream").json()["models"]["ctm"]["inputs"] == before
    server.post("/score?model=ctm", rows)
    assert server.ask("/stream").json()["models"]["ctm"]["inputs"] == before + 2


def test_models_tell_of_themselves(server: Serving, known) -> None:
    assert server.ask("/models").json()["models"] == ["ctm", "raw", "knn", "seen"]
    told = server.ask("/models/seen").json()
    assert (told["takes_images"], told["calibrated"], told["inputs"]) == (True, True, 12)
    assert sum(told["histogram"]["counts"]) == 120
    told = server.ask("/models/raw").json()
    assert (told["takes_images"], told["calibrated"], told["histogram"]) == (False, False, None)
    assert server.ask("/v2").json()["name"] == "typica"
    index = server.post("/v2/repository/index", {}).json()
    assert [(entry["name"], entry["state"]) for entry in index] == [
        (name, "READY") for name in ("ctm", "raw", "knn", "seen")
    ]
    assert server.ask("/v2/health/ready").status == server.ask("/v2/models/ctm/ready").status == 200


def test_it_listens_on_this_machine_alone(server: Serving) -> None:
    assert server.where["host"] == HOST
    ports = {server.port, server.grpc_port, server.metrics_port}
    listening = {}
    for table in ("tcp", "tcp6"):
        lines = Path(f"/proc/{server.process.pid}/net/{table}").read_text().splitlines()
        for line in lines[1:]:
            _, address, _, state, *_ = line.split()
            host, _, port = address.partition(":")
            if state == "0A" and int(port, 16) in ports:  # listens
                listening[int(port, 16)] = host
    assert set(listening) == ports
    loopback = "0100007F"
    assert set(listening.values()) <= {loopback, f"0000000000000000FFFF0000{loopback}"}


REFUSED = {
    "no JSON": (b"{", "not JSON"),
    "no object": (b"[]", "no inputs"),
    "no inputs": (b"{}", "no inputs"),
    "empty": (b'{"inputs": []}', "0 inputs"),
    "two": (json.dumps({"inputs": [tensor("features", [[1] * 16])] * 2}).encode(), "2 inputs"),
    "a number as an input": (b'{"inputs": [3]}', "inputs.0"),
    "no data": (
        b'{"inputs": [{"name": "features", "shape": [1, 16], "datatype": "FP32"}]}',
        "no data",
    ),
    "unknown name": (
        json.dumps({"inputs": [tensor("pictures", [[1] * 16])]}).encode(),
        "'pictures' is unknown",
    ),
    "half a character": (
        b'{"inputs": [{"name": "\\ud800", "shape": [2], "datatype": "BYTES", "data": [1]}]}',
        "1 values",
    ),
    "unknown type": (
        json.dumps({"inputs": [tensor("features", [[1] * 16], "FP8")]}).encode(),
        "datatype",
    ),
    "wrong width": (
        json.dumps({"inputs": [tensor("features", [[1] * 15])]}).encode(),
        "one row of 16",
    ),
    "not finite": (
        json.dumps({"inputs": [tensor("features", [[float("nan")] * 16])]}).encode(),
        "NaN",
    ),
    "too large": (
        json.dumps({"inputs": [tensor("features", [[1e300] * 16])]}).encode(),
        "infinity",
    ),
    "texts": (
        b'{"inputs": [{"name": "features", "shape": [1], "datatype": "FP32", "data": ["1"]}]}',
        "numbers",
    ),
    "ragged": (
        b'{"inputs": [{"name": "features", "shape": [2], "datatype": "FP32", "data": [[1], 2]}]}',
        "numbers",
    ),
    "no size": (
        b'{"inputs": [{"name": "features", "shape": [0, 99999999999999999999999], '
        b'"datatype": "FP32", "data": []}]}',
        "shape",
    ),
    "too few": (
        b'{"inputs": [{"name": "features", "shape": [1, 16], "datatype": "FP32", "data": [1]}]}',
        "1 values",
    ),
    "unknown output": (
        json.dumps(
            {"inputs": [tensor("features", [[1] * 16])], "outputs": [{"name": "x"}]}
        ).encode(),
        "'x' is unknown",
    ),
    "deep": (b'{"inputs": ' + b"[" * 100_000, "not JSON"),
    "images of features": (
        json.dumps(
            {"inputs": [{"name": "images", "datatype": "BYTES", "shape": [1], "data": ["aGk="]}]}
        ).encode(),
        "takes no images",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_judged(server: Serving, case: str) -> None:
    body, reason = REFUSED[case]
    answer = server.ask("/v2/models/ctm/infer", body, JSON)
    assert answer.status == 400, answer
    assert reason in answer.json()["error"]


@pytest.mark.parametrize(
    ("path", "headers", "body", "status"),
    [
        ("/v2/models/other/infer", JSON, b"{}", 404),
        ("/score?model=other", JSON, b"{}", 404),
        ("/score", JSON, b"{}", 404),
        ("/models/other", {}, None, 404),
        ("/v2/models/other", {}, None, 404),
        ("/v2/models/other/ready", {}, None, 404),
        ("/nowhere", {}, None, 404),
        ("/score?model=ctm", {}, None, 405),
        ("/v2/repository/models/ctm/unload", JSON, b"{}", 404),
        ("/score?model=ctm", {"content-type": "text/plain"}, b"x", 415),
        ("/score?model=ctm", {**JSON, "content-encoding": "gzip"}, b"x", 415),
        ("/score?model=ctm&explain=maybe", JSON, b"{}", 400),
        ("/score?model=ctm", JSON, b'{"features": [["a"]]}', 400),
        ("/score?model=ctm", JSON, b"[]", 400),
        ("/score?model=ctm", {"content-type": "image/png"}, b"x", 400),
        ("/score?model=seen", {"content-type": "multipart/form-data"}, b"x", 400),
        ("/score?model=seen", {"content-type": "multipart/form-data; boundary=b"}, b"x", 400),
        (
            "/score?model=seen",
            {"content-type": "multipart/form-data; boundary=b"},
            b"--b--\r\n",
            400,
        ),
        ("/models", {"origin": "http://evil.test"}, None, 403),
        ("/models", {"origin": "null"}, None, 403),
        ("/models", {"host": "evil.test:8080"}, None, 403),
        ("/models", {"host": "localhost:1"}, None, 200),
        ("/models", {"host": "[::1]:1"}, None, 200),
        ("/models", {"host": "[", "origin": "http://["}, None, 403),
    ],
)
def test_refusals_by_their_status(server: Serving, path, headers, body, status) -> None:
    answer = server.ask(path, body, headers)
    assert answer.status == status, answer
    assert status == 200 or answer.json()["error"]


def test_a_form_that_is_cut_short_loses_no_file_silently(server: Serving, known) -> None:
    body, kind = form(("a.png", known.photos[0]), ("b.png", known.photos[1]))
    answer = server.ask("/score?model=seen", body[:-40], {"content-type": kind})
    assert (answer.status, "cut short" in answer.json()["error"]) == (400, True)
    answer = server.score(*[(f"{i}", known.photos[0]) for i in range(257)], query="?model=seen")
    assert (answer.status, "256" in answer.json()["error"]) == (400, True)
