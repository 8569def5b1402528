"""The page at `/` as a client sees it: its files, their policy, known images, and previews."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from helpers.serving import MODEL, Serving, serving
from PIL import Image

import typica
from typica.bank import Bank
from typica.nets import extract
from typica.serve import _page

TOKEN = "a-token-of-32-letters-and-digits"
FILES = sorted(path.name for path in _page.FOLDER.iterdir())


@pytest.fixture(scope="module")
def shown(known) -> Iterator[Serving]:
    """A server of images and of features, with a bank, that asks for a token."""
    token = known.folder / "token"
    token.write_text(f"{TOKEN}\n")
    files = [known.file(name) for name in ("seen", "ctm")]
    options = ["--model", MODEL, "--bank", known.folder / "train.bank", "--token-file", token]
    with serving(*files, *options, env=known.env) as server:
        yield server


def get(server: Serving, path: str):
    return server.ask(path, headers={"authorization": f"Bearer {TOKEN}"})


@pytest.mark.parametrize("name", FILES)
def test_its_files_are_open_and_come_with_the_policy(shown, name):
    path = "/" if name == "index.html" else f"/page/{name}"
    answer = shown.ask(path)
    assert answer.status == 200
    assert answer.body == (_page.FOLDER / name).read_bytes()
    policy = dict(
        part.strip().partition(" ")[::2]
        for part in answer.headers["content-security-policy"].split(";")
    )
    assert policy["default-src"] == "'none'" and policy["script-src"] == "'self'"
    assert "unsafe" not in str(policy) and policy["frame-ancestors"] == "'none'"
    assert answer.headers["x-content-type-options"] == "nosniff"
    kind = {".js": "text/javascript", ".css": "text/css", ".html": "text/html"}
    expected = kind.get(Path(name).suffix, "image/svg+xml")
    assert answer.headers["content-type"].partition(";")[0] == expected
    same = shown.ask(path, headers={"if-none-match": answer.headers["etag"]})
    assert (same.status, same.body) == (304, b"")


@pytest.mark.parametrize("name", FILES)
def test_its_files_take_no_text_for_markup_and_name_no_other_place(name):
    text = (_page.FOLDER / name).read_text(encoding="utf-8")
    for sink in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "style=",
    ):
        assert sink not in text, sink
    assert set(re.findall(r"https?://[^\"' `]*", text)) <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<script(?![^>]*src=)", text) and not re.search(r"\son\w+=\"", text)


def test_what_the_page_names_is_there():
    index = (_page.FOLDER / "index.html").read_text()
    named = set(re.findall(r"(?:src|href)=\"page/([^\"]+)\"", index))
    for name in FILES:
        imports = re.findall(r"from \"\./([^\"]+)\"", (_page.FOLDER / name).read_text())
        named |= set(imports)
    assert named == set(FILES) - {"index.html"}


@pytest.mark.parametrize(
    "path", ["/models", "/models/seen/examples?class=red", "/models/seen/known/0", "/stream"]
)
def test_what_it_asks_for_needs_the_token(shown, path):
    assert shown.ask(path).status == 401
    assert get(shown, path).status == 200


@pytest.mark.parametrize(
    "path", ["/page/", "/page/../_page.py", "/page/%2e%2e/_page.py", "/page/x.js"]
)
def test_nothing_else_is_served(shown, path):
    assert get(shown, path).status == 404


def best_of_class(known, name: str) -> list[int]:
    """The rows of a class by their scores, highest first, of those nearest to it; by loops."""
    bank = Bank.open(known.folder / "train.bank")
    detector = typica.load(known.file("seen"))
    found = []
    for row in range(len(bank)):
        if bank.classes[bank.labels[row]] == name:
            [verdict] = detector.judge(np.asarray(bank.features[row : row + 1]))
            if str(verdict.nearest) == name:
                found.append((-verdict.score, row))
    return [row for _, row in sorted(found)]


@pytest.mark.parametrize("name", ["blue", "green", "red"])
def test_the_most_typical_of_a_class(shown, known, name):
    answer = get(shown, f"/models/seen/examples?class={name}").json()
    assert answer["class"] == name
    expected = best_of_class(known, name)[:6]
    scores = [entry["score"] for entry in answer["known"]]
    assert [entry["row"] for entry in answer["known"]] == expected
    assert scores == sorted(scores, reverse=True)
    bank = Bank.open(known.folder / "train.bank")
    for entry in answer["known"]:
        assert entry["file"] == bank.names[entry["row"]] and entry["file"].startswith(f"{name}/")


def test_the_image_of_a_row(shown, known):
    bank = Bank.open(known.folder / "train.bank")
    for row in (0, 61, len(bank) - 1):
        answer = get(shown, f"/models/seen/known/{row}")
        assert answer.headers["content-type"] == "image/png"
        original = Image.open(known.folder / "images" / bank.names[row])
        found = Image.open(io.BytesIO(answer.body))
        assert np.array_equal(np.asarray(found), np.asarray(original.convert("RGB")))


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/models/seen/examples", "no class is named"),
        (f"/models/seen/known/{10**6}", "row 1000000 of a bank of 120"),
        ("/models/absent/examples?class=red", "not here"),
    ],
)
def test_what_a_bank_does_not_hold(shown, path, says):
    answer = get(shown, path)
    assert answer.status == 404 and says in answer.json()["error"]


def test_classes_that_the_bank_does_not_know_have_no_images(shown):
    for name in ("violet", "<b>", "", "x" * 5000, "\N{SNOWMAN}"):
        answer = get(shown, f"/models/seen/examples?class={quote(name)}")
        assert answer.status == 200 and answer.json()["known"] == []


def test_without_a_bank_there_is_nothing_to_show(server):
    told = server.ask("/models/seen").json()
    assert told["shows_known"] is False and told["bank"] is None
    assert server.ask("/models/seen/examples?class=red").status == 404
    assert server.ask("/models/seen/known/0").status == 404


def test_images_that_have_moved_are_found_where_they_are(known, tmp_path, monkeypatch):
    images = shutil.copytree(known.folder / "images", tmp_path / "images")
    monkeypatch.syspath_prepend(str(known.folder))
    extract(images, MODEL, tmp_path / "train.bank")
    shutil.move(images, tmp_path / "moved")
    common = [known.file("seen"), "--model", MODEL, "--bank", tmp_path / "train.bank"]
    with serving(*common, env=known.env) as server:
        assert server.ask("/models/seen/examples?class=red").status == 200
        gone = server.ask("/models/seen/known/3")
        assert gone.status == 400 and "there is no such file or folder" in gone.json()["error"]
    with serving(*common, "--bank-images", tmp_path / "moved", env=known.env) as server:
        assert server.ask("/models/seen/known/3").status == 200


def test_a_bank_that_is_none_is_refused_with_its_reason(known, tmp_path):
    command = str(Path(sys.executable).with_name("typica"))
    options = ["--bank", str(tmp_path), "--port", "0", "--grpc-port", "0", "--metrics-port", "0"]
    ended = subprocess.run(
        [command, "serve", str(known.file("ctm")), *options],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert ended.returncode != 0
    assert "not a bank: it has no manifest.json" in " ".join(ended.stderr.split())


def test_the_server_tells_what_the_page_shows(server):
    seen, ctm, raw = (server.ask(f"/models/{name}").json() for name in ("seen", "ctm", "raw"))
    assert seen["takes_images"] and seen["image"] == {"channels": 3, "height": 8, "width": 8}
    assert seen["classes"]["names"] == ["blue", "green", "red"]
    assert sum(seen["histogram"]["counts"]) == seen["calibration"]["n"]
    assert ctm["image"] is None and "fitted on features" in ctm["no_images"]
    assert raw["histogram"] is None and not raw["calibrated"]
    assert server.ask("/models").json()["version"] == typica.__version__


def test_a_preview_is_judged_and_not_counted(known):
    files = known.file("seen"), known.file("ctm")
    with serving(*files, "--model", MODEL, env=known.env) as server:
        photo = ("p.png", known.photos[0])

        def seen() -> tuple[int, float]:
            inputs = server.ask("/stream?model=seen").json()["models"]["seen"]["inputs"]
            counted = server.metrics()['typica_inputs_total{model="seen",verdict="typical"}']
            return inputs, counted

        real = server.score(photo, query="?model=seen").json()["results"]
        assert seen() == (1, 1.0)
        preview = server.score(photo, query="?model=seen&preview=1").json()["results"]
        assert preview == real
        rows = {"features": known.rows[:2].tolist()}
        server.post("/score?model=ctm&preview=true", rows)
        assert server.ask("/stream?model=ctm").json()["models"]["ctm"]["inputs"] == 0
        assert seen() == (1, 1.0)
        assert server.score(photo, query="?model=seen&preview=0").status == 200
        assert seen() == (2, 2.0)


def test_the_stream_of_one_detector_and_its_trace(known):
    with serving(known.file("ctm"), known.file("raw"), env=known.env) as server:
        for start in range(0, 30, 10):
            rows = known.rows[start : start + 10].tolist()
            server.post("/score?model=ctm", {"features": rows})
        server.post("/score?model=raw", {"features": known.rows[:4].tolist()})
        both = server.ask("/stream").json()["models"]
        one = server.ask("/stream?model=ctm").json()["models"]
        assert set(both) == {"ctm", "raw"} and set(one) == {"ctm"}
        trace = one["ctm"]["trace"]
        assert [point["inputs"] for point in trace] == [10, 20, 30]
        assert trace[-1]["wealth"] == one["ctm"]["monitor"]["wealth"]
        assert [point["wealth"] for point in both["raw"]["trace"]] == [None]
        assert one["ctm"]["digest"] == server.ask("/models/ctm").json()["digest"]
        assert server.ask("/stream?model=absent").status == 404
        asked = [line for line in server.events("request") if line["path"] == "/stream"]
        assert asked == []  # a page that is open would fill the log


def test_a_shell_without_detectors_is_told_what_to_do():
    command = str(Path(sys.executable).with_name("typica"))
    for arguments, says in (
        ([], "no detectors; pass files that `typica fit` wrote, or --demo"),
        (["--demo", "ctm.safetensors"], "--demo brings its own detectors"),
        (["--demo", "--write", "folder"], "--demo brings its own detectors"),
        (["--demo", "--bank", "b.bank", "--model", "m.onnx"], "leave out --bank, --model."),
    ):
        ended = subprocess.run(
            [command, "serve", *arguments], capture_output=True, text=True, check=False
        )
        said = " ".join((ended.stdout + ended.stderr).split())
        assert ended.returncode != 0 and says in said
