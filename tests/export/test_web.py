"""An exported model in real Chromium, by onnxruntime-web and the page's own lines of JavaScript."""

from __future__ import annotations

import functools
import http.server
import json
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from helpers.browser import chromium_in, needs_browser
from helpers.data import make_data
from helpers.export import calibrated, rows_of
from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait

from typica import CTM
from typica.export import to_onnx

ROOT = Path(__file__).parents[2]
RUNTIME = ROOT / ".web" / "node_modules" / "onnxruntime-web" / "dist"
FILES = ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
PAGE = """<!doctype html><script type="module">
import { judge } from "./judge.mjs";
import * as ort from "./ort.wasm.min.mjs";
try {
  const rows = await (await fetch("rows.json")).json();
  const session = await ort.InferenceSession.create("ctm.onnx");
  document.title = JSON.stringify({ verdicts: await judge(rows), inputs: session.inputNames });
} catch (error) { document.title = "failed: " + error; }
</script>"""

pytestmark = [
    needs_browser,
    pytest.mark.skipif(
        not RUNTIME.is_dir(), reason="onnxruntime-web is not installed (make web, which needs npm)"
    ),
]


class Handler(http.server.SimpleHTTPRequestHandler):
    extensions_map: ClassVar = {
        ".mjs": "text/javascript",
        ".wasm": "application/wasm",
        ".html": "text/html",
    }

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    serve = functools.partial(Handler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    with chromium_in(tmp_path_factory.mktemp("chromium")) as driver:
        yield driver


def test_the_lines_of_the_page_give_what_python_gives(tmp_path, address, chromium):
    data = make_data()
    detector, rows = calibrated(CTM(), data), rows_of(data)
    to_onnx(detector, path=tmp_path / "ctm.onnx")
    page = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    (script,) = re.findall(r"^```js\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    (tmp_path / "judge.mjs").write_text(script)
    (tmp_path / "index.html").write_text(PAGE)
    (tmp_path / "rows.json").write_text(json.dumps(rows.tolist()))
    for name in FILES:
        shutil.copy(RUNTIME / name, tmp_path)
    chromium.get(f"{address}/index.html")
    WebDriverWait(chromium, 120).until(lambda driver: driver.title)
    assert chromium.title.startswith("{"), chromium.title
    said = json.loads(chromium.title)
    # What has a default cannot be given, as the page says.
    assert said["inputs"] == ["features"]
    found = said["verdicts"]
    wanted = detector.judge(rows)
    np.testing.assert_allclose([row["score"] for row in found], wanted.score, atol=1e-5)
    apart = abs(wanted.score - wanted.threshold) > 1e-6
    typical = np.array([row["typical"] for row in found])
    assert np.array_equal(typical[apart], wanted.typical[apart])
    assert np.abs(np.array([row["p"] for row in found]) - wanted.p_value).max() <= 2 / 121
    nearest = detector.classes_[[row["nearest"] for row in found]]
    assert np.array_equal(nearest, wanted.nearest)
